package deadtrace

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/entrace-go/entrace/format"
	"github.com/entrace-go/entrace/internal/file/osfile"
	"github.com/entrace-go/entrace/internal/file/tracename"
)

// A Filter selects traces of a folder.
type Filter struct {
	// Base reports whether the filter includes the traces and temporary files with a base name. The base
	// name has no extension, and no time of a renamed trace.
	Base func(base string) bool
	// Trace, if set, reports whether the filter includes one of these traces. The path has no extension.
	Trace func(path string) bool
}

// Folder finishes the traces of dead processes in the folder dir that the filter includes, and removes
// their temporary files. It calls each with the result or the error of every trace. It skips traces that
// a living process is using.
func Folder(ctx context.Context, dir string, meant Filter, o *Options, each func(*Result, error)) error {
	list, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	var streams []string
	rank := make(map[string]int) // by stream: 0 with a journal, 1 without
	for _, e := range list {
		name, isJournal := strings.CutSuffix(e.Name(), tracename.Journal)
		if _, _, _, ok := splitName(name); !ok || !isStream(name) || !e.Type().IsRegular() && !isJournal {
			continue
		}
		if _, seen := rank[name]; !seen {
			streams, rank[name] = append(streams, name), 1
		}
		if isJournal {
			rank[name] = 0
		}
	}
	RemoveTemps(ctx, dir, list, !o.AtStart, func(name string) bool {
		_, base, _, ok := splitName(name)
		return ok && meant.Base(base)
	})
	// Finish streams with a journal first, because their records may be in another stream as well.
	slices.SortStableFunc(streams, func(a, b string) int { return rank[a] - rank[b] })
	for _, name := range streams {
		if err := ctx.Err(); err != nil {
			return err
		}
		path, base, _, _ := splitName(name)
		if !meant.Base(base) || meant.Trace != nil && !meant.Trace(filepath.Join(dir, path)) {
			continue
		}
		r, err := Finish(ctx, filepath.Join(dir, name), o)
		switch {
		case IsOthers(err), isForeign(err) && o.Owner != Private: // another process uses it, or it is not a trace
		case errors.Is(err, ErrOtherEntries) && o.Owner != Private: // both files stay unchanged
		case err != nil || r != nil && !r.EqualET:
			each(r, err)
		}
	}
	return nil
}

// IsOthers reports whether err says that another process is using the same trace or was faster.
func IsOthers(err error) bool {
	return errors.Is(err, format.ErrLocked) || errors.Is(err, format.ErrShrunk) || errors.Is(err, fs.ErrNotExist) ||
		errors.Is(err, fs.ErrExist) && !errors.Is(err, ErrOtherEntries)
}

// isForeign reports whether err says that a file is not a readable trace.
func isForeign(err error) bool {
	return errors.Is(err, format.ErrUnsupported) || errors.Is(err, format.ErrNotEntrace) || errors.Is(err, format.ErrNotRegular)
}

// RemoveTemps removes the temporary files of dead processes among list, the entries of the folder dir. The
// function of reports whether the temporary files of a trace are removed, given the name of the trace with
// its extension. If patient is set, RemoveTemps waits long enough that the maker of a new file would have
// locked it.
func RemoveTemps(ctx context.Context, dir string, list []fs.DirEntry, patient bool, of func(name string) bool) {
	for _, e := range list {
		i := strings.LastIndex(e.Name(), ".tmp-")
		if i < 1 || e.Name()[0] != '.' || !e.Type().IsRegular() {
			continue
		}
		name := strings.TrimSuffix(e.Name()[1:i], tracename.Broken)
		if !of(strings.TrimSuffix(name, tracename.Journal)) {
			continue
		}
		name = filepath.Join(dir, e.Name())
		if fi, err := os.Lstat(name); err == nil && patient && !osfile.Locked(name) {
			select {
			case <-time.After(min(osfile.SettleTime-time.Since(fi.ModTime()), osfile.SettleTime)):
			case <-ctx.Done():
			}
		}
		osfile.RemoveDead(name)
	}
}
