package deadtrace

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/entrace-go/entrace/internal/file/osfile"
	"github.com/entrace-go/entrace/internal/file/retain"
	"github.com/entrace-go/entrace/internal/file/tracename"
)

// A keptTrace is a finished trace. It has two files while a process is finishing it.
type keptTrace struct {
	retain.File // the path has no extension

	files []string
	own   bool // the trace has the base name of this recording
}

// familyOf returns the traces of a family, without the growing trace stream.
func familyOf(stream string, family func(base string) bool) ([]keptTrace, error) {
	dir, own := filepath.Split(strings.TrimSuffix(stream, tracename.IET))
	list, err := osfile.Files(filepath.Clean(dir), func(name string) bool {
		path, base, _, ok := splitName(name)
		return ok && (base == own && path != own || base != own && family != nil && family(base))
	})
	if err != nil {
		return nil, err
	}
	var traces []keptTrace
	at := make(map[string]int) // index in traces of each path
	for _, fi := range list {
		path, base, named, _ := splitName(fi.Name())
		i, there := at[path]
		if !there {
			if path == base {
				named = fi.ModTime()
			}
			i = len(traces)
			at[path] = i
			traces = append(traces, keptTrace{File: retain.File{Path: dir + path, Named: named, Modified: fi.ModTime()}, own: base == own})
		}
		t := &traces[i]
		t.files = append(t.files, dir+fi.Name())
		t.Size += fi.Size()
	}
	return traces, nil
}

// Keep says how many finished traces of a path and its family remain.
type Keep struct {
	Files  int   // 0: no bound
	Bytes  int64 // 0: no bound
	Family func(base string) bool
	Ended  *retain.Log       // the traces that this process has finished, by path without extension
	Notice func(text string) // called with a text that names the removed files
}

// Prune removes the oldest finished traces of the family of stream until the rest is within the bounds. It
// does not remove the traces in spare, which are paths without extensions, or traces that a process is
// using.
func (k *Keep) Prune(ctx context.Context, stream string, now time.Time, spare ...string) error {
	if k.Files == 0 && k.Bytes == 0 {
		return nil
	}
	traces, err := familyOf(stream, k.Family)
	if err != nil {
		return err
	}
	there := make(map[string]*keptTrace)
	var files []retain.File
	for i := range traces {
		t := &traces[i]
		there[t.Path] = t
		t.Spare = slices.Contains(spare, t.Path)
		if !t.inUse() { // traces in use do not count
			files = append(files, t.File)
		}
	}
	k.Ended.Forget(func(path string) bool { return there[path] != nil })
	var errs error
	var gone []string
	k.Ended.Prune(files, retain.Keep{Files: k.Files, Bytes: k.Bytes}, now, func(f *retain.File) bool {
		if ctx.Err() != nil {
			return false
		}
		removed, left := false, false // removed remains false if another process has removed the files
		for _, name := range there[f.Path].files {
			err := os.Remove(name)
			removed = removed || err == nil
			err = osfile.Ignore(err, fs.ErrNotExist)
			left, errs = left || err != nil, errors.Join(errs, err)
		}
		if removed {
			gone = append(gone, filepath.Base(there[f.Path].files[0]))
		}
		return !left
	})
	if len(gone) > 0 {
		text := "removed to make room: " + strings.Join(gone[:min(len(gone), maxNamed)], ", ")
		if len(gone) > maxNamed {
			text += fmt.Sprintf(" and %d more", len(gone)-maxNamed)
		}
		k.Notice(text)
	}
	return errs
}

// maxNamed is the maximum number of removed files that a notice names.
const maxNamed = 5

// inUse reports whether the trace grows, is being finished, or must still be finished.
func (t *keptTrace) inUse() bool {
	return slices.ContainsFunc(t.files, func(name string) bool {
		if !isStream(name) {
			return false
		}
		return osfile.Locked(name) || osfile.Exists(name+tracename.Journal) || !t.own && len(t.files) == 1 && markOf(name) == markNone
	})
}
