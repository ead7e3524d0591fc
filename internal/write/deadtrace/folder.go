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

// A Filter selects traces in a folder.
type Filter struct {
	// Base reports whether the filter selects the traces and temporary files with a base name: the file
	// name without extension, and without the time that a renamed trace has in its name.
	Base func(base string) bool
	// Trace, if set, reports whether the filter also selects a trace among those of Base, by its path
	// without extension.
	Trace func(path string) bool
}

// Folder finishes the selected traces of dead processes in the folder dir, and removes their temporary
// files. It calls each with the result or the error of every trace. It skips traces that a living process
// is using.
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
	// Streams with a journal first: their records may be in another stream as well.
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
		case errors.Is(err, ErrOtherEntries) && o.Owner != Private: // both files remain unchanged
		case err != nil || r != nil && !r.EqualET:
			each(r, err)
		}
	}
	return nil
}

// IsOthers reports whether err means that another process is using the trace, or has just finished it.
func IsOthers(err error) bool {
	return errors.Is(err, format.ErrLocked) || errors.Is(err, format.ErrShrunk) || errors.Is(err, fs.ErrNotExist) ||
		errors.Is(err, fs.ErrExist) && !errors.Is(err, ErrOtherEntries)
}

// isForeign reports whether err means that a file is not a readable trace.
func isForeign(err error) bool {
	return errors.Is(err, format.ErrUnsupported) || errors.Is(err, format.ErrNotEntrace) || errors.Is(err, format.ErrNotRegular)
}

// RemoveTemps removes temporary files of dead processes in the folder dir, whose entries are list. The
// function of reports whether the temporary files of a trace are removed, given its name with extension.
// If patient is set, RemoveTemps waits before it removes a new file, because its process may not have
// locked it yet.
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
