// Package traces manages the trace folder of a flight recorder: it names the files, lists and
// removes finished traces, and recovers the files of dead processes.
package traces

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/entrace-go/entrace/internal/file/osfile"
	"github.com/entrace-go/entrace/internal/file/retain"
	"github.com/entrace-go/entrace/internal/file/tracename"
	"github.com/entrace-go/entrace/internal/write/deadtrace"
)

// A File is a finished trace.
type File struct {
	Name   string    `json:"name"`   // the file name, without the folder
	Size   int64     `json:"size"`   // in bytes
	Time   time.Time `json:"time"`   // when the trace began, from its name; UTC
	Manual bool      `json:"manual"` // the trace was requested manually
	Config string    `json:"config"` // the name of the trace in the configuration, or "crash"

	modified time.Time
}

// A Folder is a folder of traces. It ignores files with other names, and files that are not regular.
// Several processes may use one folder. A Folder is safe for concurrent use.
type Folder struct {
	dir   string
	ended retain.Log // the traces that this process has finished, by file name
}

// Open returns the folder dir. If dir does not exist, Open creates it with the mode 0700.
func Open(dir string) (*Folder, error) {
	if dir == "" {
		return nil, errors.New("open the folder of the traces: the name is empty")
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
		fi, serr := os.Stat(dir) // perhaps dir exists: on some systems, the error is not ErrExist then
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

// Dir returns the path of the folder. The path is absolute, and without symbolic links if they
// could be resolved.
func (f *Folder) Dir() string { return f.dir }

// path returns the path of the file name in the folder.
func (f *Folder) path(name string) string { return filepath.Join(f.dir, name) }

// List returns the finished traces, oldest first.
func (f *Folder) List() ([]File, error) {
	list, err := osfile.Files(f.dir, isName)
	if err != nil {
		return nil, fmt.Errorf("list the traces: %w", err)
	}
	var files []File
	for _, fi := range list {
		n, _ := parseFileName(fi.Name())
		files = append(files, File{Name: fi.Name(), Size: fi.Size(), Time: n.time, Manual: n.manual, Config: n.config, modified: fi.ModTime()})
	}
	// If a folder changes during the reading, a file may occur twice.
	return slices.CompactFunc(files, func(a, b File) bool { return a.Name == b.Name }), nil
}

// Trim removes traces until all bounds of k hold at the time now, and returns the number of traces that it has
// removed. It first removes traces that are too old, then the oldest traces that were not requested manually, then
// the oldest manually requested traces. Package retain decides which trace is older. The parameter finished has the
// names of the traces that this process has just finished; the age of these traces counts from now. Trim never
// removes these traces, or, if none of them exists, the newest trace. A trace that cannot be removed still counts;
// after Trim has tried all traces, it returns the first error.
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
		spared = spared || all[i].Spare
		if older(&all[i], newest) >= 0 {
			newest = &all[i]
		}
	}
	newest.Spare = newest.Spare || !spared
	f.ended.Prune(all, k, now, func(file *retain.File) bool {
		rerr := os.Remove(f.path(file.Path))
		if rerr == nil {
			removed++
		} else if !errors.Is(rerr, fs.ErrNotExist) { // another process may just have removed it
			err = cmp.Or(err, fmt.Errorf("remove old traces: %w", rerr))
			return false
		}
		return true
	})
	return removed, err
}

// OpenFile opens a finished trace for reading. The caller closes the file. If name is not the name
// of a trace, or the file is not a regular file, the error is fs.ErrNotExist.
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
	if !was.Mode().IsRegular() { // opening another kind of file, for example a pipe, could block
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

// Finish finishes the trace name if its writer is dead, and reports whether it did.
func (f *Folder) Finish(name string) (bool, error) {
	r, err := deadtrace.Finish(context.Background(), tracename.Stream(f.path(name)), &deadtrace.Options{Owner: deadtrace.Private})
	if deadtrace.IsOthers(err) {
		return false, nil
	}
	return err == nil && r != nil && r.Changed, err
}
