package traces

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/entrace-go/entrace/format"
	"github.com/entrace-go/entrace/internal/core/journal"
	"github.com/entrace-go/entrace/internal/file/crashtext"
	"github.com/entrace-go/entrace/internal/file/tracename"
	"github.com/entrace-go/entrace/internal/write/deadtrace"
	"github.com/entrace-go/entrace/recorder"
)

// A Result is the Result of package tracedir. Both types must have the same fields.
type Result struct {
	recorder.Report

	Ring bool // the file is a ring; the fields below are set only for a ring

	Time    time.Time // the time of the last record
	PID     int
	Service string
	Reason  string // the first line of the crash text of the runtime; "" if there is none
	Damaged int    // number of parts of the ring that could not be read
}

// Recover implements Recover of package tracedir.
func Recover(ctx context.Context, dir string, each func(*Result, error)) error {
	if _, err := os.Stat(dir); err != nil {
		return err
	}
	f, err := Open(dir)
	if err != nil {
		return err
	}
	if err := f.recover(ctx, &deadtrace.Options{Owner: deadtrace.Private}, each); err != nil {
		return err
	}
	others := deadtrace.Filter{Base: func(base string) bool { return !isName(base + tracename.ET) }}
	return f.streams(ctx, others, &deadtrace.Options{Owner: deadtrace.Others}, each)
}

// Recover is like the function Recover, but for a process that starts. It ignores plain recordings. If the journal of
// a trace cannot be reached, it does not finish the trace during the first day. It calls report with the reason if
// records are missing.
func (f *Folder) Recover(report func(error), each func(*Result, error)) error {
	return f.recover(context.Background(), &deadtrace.Options{Owner: deadtrace.Private, AtStart: true, Report: report}, each)
}

// recover converts rings to traces and finishes the streams of traces.
func (f *Folder) recover(ctx context.Context, o *deadtrace.Options, each func(*Result, error)) error {
	var rings, texts []string
	var temps []fs.DirEntry
	list, err := os.ReadDir(f.dir)
	for _, e := range list {
		switch name := e.Name(); {
		case !e.Type().IsRegular():
		case strings.HasPrefix(name, "."+ringPrefix):
			temps = append(temps, e)
		case !strings.HasPrefix(name, ringPrefix):
		case strings.HasSuffix(name, ringExt):
			rings = append(rings, name)
		case strings.HasSuffix(name, crashtext.Ext):
			texts = append(texts, name)
		}
	}
	for _, name := range rings {
		r := &Result{Ring: true}
		r.Name = f.path(name)
		err := f.recoverRing(r)
		if errors.Is(err, format.ErrLocked) || errors.Is(err, fs.ErrNotExist) {
			continue // a living process uses the ring, or another process has just recovered it
		}
		if _, ok := errors.AsType[*journal.LayoutError](err); ok {
			err = f.setAside(r.Name, err)
		}
		each(r, err)
	}
	for _, name := range texts {
		// A crash text without its ring is useless. A living process has both files.
		if _, err := os.Lstat(f.path(strings.TrimSuffix(name, crashtext.Ext) + ringExt)); errors.Is(err, fs.ErrNotExist) {
			_ = os.Remove(f.path(name)) // on an error, the next recovery tries again
		}
	}
	isRing := func(name string) bool { return strings.HasPrefix(name, ringPrefix) && strings.HasSuffix(name, ringExt) }
	deadtrace.RemoveTemps(ctx, f.dir, temps, false, isRing)
	own := deadtrace.Filter{Base: func(base string) bool { return isName(base + tracename.ET) }}
	return cmp.Or(err, f.streams(ctx, own, o, each))
}

// streams finishes the streams that the filter selects.
func (f *Folder) streams(ctx context.Context, is deadtrace.Filter, o *deadtrace.Options, each func(*Result, error)) error {
	err := deadtrace.Folder(ctx, f.dir, is, o, func(r *deadtrace.Result, err error) {
		switch {
		case err != nil:
			each(nil, fmt.Errorf("finish a trace: %w", err))
		case r.Changed || o.Owner != deadtrace.Private:
			each(&Result{Report: recorder.Report(r.Report)}, nil)
		}
	})
	if err != nil {
		return fmt.Errorf("finish the traces in %s: %w", filepath.Base(f.dir), err)
	}
	return nil
}
