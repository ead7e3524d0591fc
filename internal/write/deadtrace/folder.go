package deadtrace

import (
	"bytes"
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/entrace-go/entrace/format"
	"github.com/entrace-go/entrace/internal/core/mapping"
	"github.com/entrace-go/entrace/internal/core/wire"
	"github.com/entrace-go/entrace/internal/file/crashtext"
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

// A mark is the kind of entry that ends an IET, found in the last bytes of the IET.
type mark uint8

const (
	markNone      mark = iota
	markRecovered      // recovery has saved the whole entries
	markRotated        // the writer has continued in another file
	markEnd            // the writer has closed the IET
)

// EndsCleanly reports whether the last bytes of the IET name are the entry that marks a clean
// end. It does not read the other entries.
func EndsCleanly(name string) bool { return markOf(name) >= markRotated }

// IsFinished reports whether nothing is left to do for the IET name, which may have lost all but its
// journal. Nothing is left to do if it has no journal and no text of a crash, and if its last bytes say how
// it ended or its user has made it read-only.
func IsFinished(name string) bool {
	if osfile.Exists(name+tracename.Journal) || osfile.Exists(name+crashtext.Ext) {
		return false
	}
	fi, err := os.Lstat(name)
	return err == nil && fi.Mode()&0o200 == 0 || markOf(name) != markNone
}

func markOf(name string) mark {
	f, err := osfile.OpenRead(name)
	if err != nil {
		return markNone
	}
	defer f.Close()
	fi, err := f.Stat()
	if err != nil {
		return markNone
	}
	return lastMark(f, fi.Size())
}

// lastMark returns the mark of f, which has size bytes.
func lastMark(f io.ReaderAt, size int64) mark {
	v, stored, err := format.ReadMagic(f)
	if err != nil || stored != format.IET {
		return markNone
	}
	b := make([]byte, min(size-wire.MagicSize, endSize))
	if _, err := f.ReadAt(b, size-int64(len(b))); err != nil {
		return markNone
	}
	at := max(bytes.LastIndex(b, []byte(mapping.NameEnd)), bytes.LastIndex(b, []byte(mapping.NameRecovered)))
	for from := max(0, at-maxBeforeName); from < at; from++ {
		var e format.TraceEntry
		n, err := format.DecodeTraceEntry(b[from:], v, &e)
		switch {
		case err != nil || n != len(b)-from:
		case e.IsRotated():
			return markRotated
		case e.IsEnd():
			return markEnd
		case e.IsRecovered():
			return markRecovered
		}
	}
	return markNone
}

const (
	endSize       = 4 << 10 // more than the size of an entry with a mark
	maxBeforeName = 64      // the largest number of bytes before the name in such an entry
)
