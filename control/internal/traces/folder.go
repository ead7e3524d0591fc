// Package traces is the folder of the traces of a flight recorder: the names of its files, the
// finished traces and how many are kept, and the recovery of the files of processes that died.
package traces

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/entrace-go/entrace/internal/deadtrace"
	"github.com/entrace-go/entrace/internal/retain"
	"github.com/entrace-go/entrace/internal/tracename"
)

// A File is a finished trace.
type File struct {
	Name   string    // of the file, without its folder
	Size   int64     // in bytes
	Time   time.Time // when the trace began, UTC, by its name
	Manual bool      // somebody asked for it
	Config string    // the name of the trace in the configuration, or "crash"

	modified time.Time
}

// A Folder is a folder of traces. It leaves everything alone that has another name or is not a
// regular file. Several processes may use one folder. A Folder is safe for concurrent use.
type Folder struct {
	dir   string
	ended retain.Log // by name
}

// Open returns the folder dir, and makes it, for the user alone, if it is
// not there.
func Open(dir string) (*Folder, error) {
	if dir == "" {
		return nil, errors.New("open the folder of the traces: its name is empty")
	}
	dir, err := filepath.Abs(dir)
	if err != nil {
		return nil, fmt.Errorf("open the folder of the traces: %w", err)
	}
	//nolint:gosec // G301: only the folder itself is private
	if err := os.MkdirAll(filepath.Dir(dir), 0o755); err != nil {
		return nil, fmt.Errorf("make the folder of the traces: %w", err)
	}
	if err := os.Mkdir(dir, 0o700); err != nil {
		fi, serr := os.Stat(dir) // some systems have another error than ErrExist
		if serr != nil {
			return nil, fmt.Errorf("make the folder of the traces: %w", err)
		}
		if !fi.IsDir() {
			return nil, fmt.Errorf("open the folder of the traces: %s is not a folder", dir)
		}
	}
	if resolved, err := filepath.EvalSymlinks(dir); err == nil {
		dir = resolved
	}
	return &Folder{dir: dir}, nil
}

// Dir returns the path of the folder. It is absolute, and without symbolic links where the system says
// how.
func (f *Folder) Dir() string { return f.dir }

// path returns the path of the file name in the folder.
func (f *Folder) path(name string) string { return filepath.Join(f.dir, name) }

// each calls fn for the regular files in the folder, in no order.
func (f *Folder) each(fn func(e fs.DirEntry)) error {
	d, err := os.Open(f.dir)
	if err != nil {
		return err
	}
	defer d.Close()
	for {
		// In parts, since nothing bounds the number of other files.
		list, err := d.ReadDir(256)
		for _, e := range list {
			if e.Type().IsRegular() {
				fn(e)
			}
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

// List returns the finished traces, oldest first.
func (f *Folder) List() ([]File, error) {
	var files []File
	var first error
	err := f.each(func(e fs.DirEntry) {
		n, ok := parseFileName(e.Name())
		if !ok {
			return
		}
		fi, err := e.Info()
		if err != nil {
			if first == nil && !errors.Is(err, fs.ErrNotExist) { // else somebody trims
				first = err
			}
			return
		}
		if fi.Mode().IsRegular() {
			files = append(files, File{Name: e.Name(), Size: fi.Size(), Time: n.time, Manual: n.manual, Config: n.config, modified: fi.ModTime()})
		}
	})
	if err == nil {
		err = first
	}
	if err != nil {
		return nil, fmt.Errorf("list the traces: %w", err)
	}
	slices.SortFunc(files, func(a, b File) int { return cmp.Compare(a.Name, b.Name) })
	// A folder that changes while it is read may show a file twice.
	return slices.CompactFunc(files, func(a, b File) bool { return a.Name == b.Name }), nil
}

// Trim removes traces until all bounds of k hold at the time now, and returns how
// many this call has removed: those that are too old, then the oldest of those that
// nobody asked for by hand, then the oldest of the others. Package retain decides which
// is older. The caller passes the names of the traces that this process has just finished, from when
// their age counts. Trim never removes those; if none of them exists, it spares the newest one. A trace
// that cannot be removed still counts. The first such error is returned in the end.
func (f *Folder) Trim(k retain.Keep, now time.Time, finished ...string) (removed int, err error) {
	for _, name := range finished {
		f.ended.Add(name)
	}
	if k == (retain.Keep{}) {
		return 0, nil
	}
	files, err := f.List()
	if err != nil || len(files) == 0 {
		return 0, err
	}
	f.ended.Forget(func(name string) bool {
		_, there := slices.BinarySearchFunc(files, name, func(file File, name string) int { return cmp.Compare(file.Name, name) })
		return there
	})
	all := make([]retain.File, len(files))
	newest, older, spared := &all[0], f.ended.Compare(now), false
	for i := range files {
		file := &files[i]
		all[i] = retain.File{Path: file.Name, Named: file.Time, Modified: file.modified, Size: file.Size, Asked: file.Manual, Spare: slices.Contains(finished, file.Name)}
		if spared = spared || all[i].Spare; older(&all[i], newest) >= 0 {
			newest = &all[i]
		}
	}
	newest.Spare = newest.Spare || !spared
	f.ended.Prune(all, k, now, func(file *retain.File) bool {
		rerr := os.Remove(f.path(file.Path))
		if rerr == nil {
			removed++
		} else if !errors.Is(rerr, fs.ErrNotExist) { // else another process has trimmed it
			err = cmp.Or(err, fmt.Errorf("trim the traces: %w", rerr))
			return false
		}
		return true
	})
	return removed, err
}

// OpenFile opens a finished trace for reading, which the caller closes. Whatever has
// not the name of one, or is no regular file, is fs.ErrNotExist.
func (f *Folder) OpenFile(name string) (*os.File, os.FileInfo, error) {
	missing := &fs.PathError{Op: "open", Path: name, Err: fs.ErrNotExist}
	if _, ok := parseFileName(name); !ok {
		return nil, nil, missing
	}
	root, err := os.OpenRoot(f.dir)
	if err != nil {
		return nil, nil, err
	}
	defer root.Close()
	was, err := root.Lstat(name)
	if err != nil {
		return nil, nil, err
	}
	if !was.Mode().IsRegular() { // to open a pipe could block
		return nil, nil, missing
	}
	file, err := root.Open(name)
	if err != nil {
		return nil, nil, err
	}
	fi, err := file.Stat()
	if err == nil && !os.SameFile(was, fi) {
		err = missing
	}
	if err != nil {
		_ = file.Close() // nothing was written
		return nil, nil, err
	}
	return file, fi, nil
}

// Finish finishes the trace name that a dead writer has left, and reports whether it did.
func (f *Folder) Finish(name string) (bool, error) {
	r, err := deadtrace.Finish(context.Background(), tracename.Stream(f.path(name)), &deadtrace.Options{Owner: deadtrace.Private})
	if deadtrace.IsOthers(err) {
		return false, nil
	}
	return err == nil && r != nil && r.Changed, err
}
