// Package osfile opens, locks, syncs and replaces the files of traces. The files are private to the user. Opening a
// file does not block, and opening it for writing does not follow a symbolic link. Functions that promise
// durability sync the disk.
package osfile

import (
	"cmp"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"time"
)

// ErrNotRegular is returned for everything except a regular file.
var ErrNotRegular = errors.New("not a regular file")

// ErrLocked is returned by Lock if another open file holds the lock.
var ErrLocked = errors.New("locked")

// ErrNoLocks is returned by Lock if the system or the file system does not support locks.
var ErrNoLocks = errors.New("the file system does not support file locks")

// On all systems including Windows, a file that this package has opened may be renamed or removed while it is open.

// OpenRead opens a regular file for reading. It never blocks, not even on a pipe.
func OpenRead(name string) (*os.File, error) { return openRegular(name, os.O_RDONLY|openNonblock) }

// OpenWrite opens an existing regular file for reading and writing. It does not
// follow a symbolic link.
func OpenWrite(name string) (*os.File, error) {
	if err := notSymlink(name); err != nil {
		return nil, err
	}
	return openRegular(name, os.O_RDWR|openNonblock|openNofollow)
}

// CreateAppend creates a file for reading, and for writing at its end. The file must not exist.
func CreateAppend(name string) (*os.File, error) {
	return create(name, os.O_APPEND)
}

// CreateNew creates a file for reading and writing. The file must not exist.
func CreateNew(name string) (*os.File, error) {
	return create(name, 0)
}

func create(name string, flag int) (*os.File, error) {
	f, err := openFile(name, flag|os.O_RDWR|os.O_CREATE|os.O_EXCL|openNofollow)
	if err == nil {
		_ = f.Chmod(0o600) // a umask may have removed the rights of the owner, so that nobody could recover the file
	}
	return f, err
}

// Allocate extends f by n zero bytes that are allocated on the disk. The parameter off is the size of f.
func Allocate(f *os.File, off, n int64) error {
	if err := allocate(f, off, n); !errors.Is(err, errors.ErrUnsupported) {
		return err
	}
	zeros := make([]byte, min(n, 1<<16))
	for ; n > 0; n -= int64(len(zeros)) {
		if _, err := f.WriteAt(zeros[:min(n, int64(len(zeros)))], off); err != nil {
			return err
		}
		off += int64(len(zeros))
	}
	return nil
}

func openRegular(name string, flag int) (*os.File, error) {
	f, err := openFile(name, flag)
	if err != nil {
		return nil, err
	}
	fi, err := f.Stat()
	if err == nil && !fi.Mode().IsRegular() {
		err = &fs.PathError{Op: "open", Path: name, Err: ErrNotRegular}
	}
	if err != nil {
		_ = f.Close() // nothing was written
		return nil, err
	}
	return f, nil
}

// Ignore returns err, or nil if err matches other.
func Ignore(err, other error) error {
	if errors.Is(err, other) {
		return nil
	}
	return err
}

// Stat is like [os.Stat], but its result can always be compared with [os.SameFile]. On Windows, a result of os.Stat
// identifies its file by name until the first comparison. Until then, another file may get the name.
func Stat(name string) (os.FileInfo, error) {
	fi, err := os.Stat(name)
	if err == nil {
		_ = os.SameFile(fi, fi)
	}
	return fi, err
}

// IsNamed reports whether name leads to the file that was describes, directly or through a symbolic link.
func IsNamed(was os.FileInfo, name string) bool {
	now, err := Stat(name)
	return err == nil && os.SameFile(was, now)
}

// Exists reports whether the name is in use. A symbolic link counts, even if it leads nowhere.
func Exists(name string) bool {
	_, err := os.Lstat(name)
	return err == nil
}

// Files returns the regular files in a folder whose names are wanted, in the order of their names. It leaves out a file
// that was removed during the reading. With an error, it returns the files that it could read.
func Files(dir string, wanted func(name string) bool) (files []os.FileInfo, err error) {
	list, err := os.ReadDir(dir)
	for _, e := range list {
		if !e.Type().IsRegular() || !wanted(e.Name()) {
			continue
		}
		fi, ierr := e.Info()
		if ierr == nil && fi.Mode().IsRegular() {
			files = append(files, fi)
		}
		err = cmp.Or(err, Ignore(ierr, fs.ErrNotExist))
	}
	return files, err
}

func notSymlink(name string) error {
	fi, err := os.Lstat(name)
	if err == nil && !fi.Mode().IsRegular() {
		return &fs.PathError{Op: "open", Path: name, Err: ErrNotRegular}
	}
	return nil // if there is no such file, opening it returns an error
}

// SyncDir syncs the folder of the file name, so that the names in the folder are durable.
func SyncDir(name string) error { return syncDir(filepath.Dir(name)) }

// A Temp is a temporary file that gets its final name when it is complete.
type Temp struct {
	*os.File

	name string
	done bool
}

// CreateTemp makes a temporary file in the folder of name.
func CreateTemp(name string) (*Temp, error) {
	f, err := createUnique(tempPrefix(name), CreateNew)
	if err != nil {
		return nil, err
	}
	_ = Lock(f, true) // if possible, so that RemoveDead does not remove it
	return &Temp{File: f, name: name}, nil
}

// A Spool is a temporary file for data that does not fit into memory. The file has no name, so it disappears when
// the process ends or is killed. On some file systems of Windows it has a name until Close.
type Spool struct {
	*os.File

	name string // "" if the file has no name any more
}

// CreateSpool makes a Spool in the folder dir. An empty dir means os.TempDir.
func CreateSpool(dir string) (*Spool, error) {
	if dir == "" {
		dir = os.TempDir()
	}
	f, err := createUnique(filepath.Join(dir, "entrace-"), CreateNew)
	if err != nil {
		return nil, err
	}
	s := &Spool{File: f, name: f.Name()}
	if os.Remove(s.name) == nil {
		s.name = ""
	}
	return s, nil
}

// Close closes and removes the file. The caller may already have closed the file itself.
func (s *Spool) Close() error {
	err := Ignore(s.File.Close(), os.ErrClosed)
	if s.name != "" {
		err = errors.Join(err, os.Remove(s.name))
		s.name = ""
	}
	return err
}

// SettleTime is the longest time between the creation of a file and its lock.
const SettleTime = time.Second

// RemoveDead removes a temporary file if the process that made it is dead. It does not remove a file that is newer
// than SettleTime, because its process may not have locked it yet.
func RemoveDead(name string) {
	f, err := OpenWrite(name)
	if err != nil {
		return
	}
	defer f.Close()
	if fi, err := f.Stat(); err != nil || time.Since(fi.ModTime()) < SettleTime {
		return
	}
	if Lock(f, true) == nil && SameFile(f, name) {
		_ = Remove(f, name) // if this fails, the next call tries again
	}
}

// CreateTempAppend makes a temporary file in the folder of name. It can only be written at its end. The caller
// renames or removes it.
func CreateTempAppend(name string) (*os.File, error) {
	return createUnique(tempPrefix(name), CreateAppend)
}

// TempName returns a name for a temporary file in the folder of name.
func TempName(name string) string { return tempPrefix(name) + rand.Text() }

// TempPattern returns a pattern for [filepath.Glob] of the temporary files for the file name.
func TempPattern(name string) string {
	return strings.NewReplacer(`\`, `\\`, `*`, `\*`, `?`, `\?`, `[`, `\[`).Replace(tempPrefix(name)) + "*"
}

// tempPrefix returns the beginning of the names of temporary files for the file name.
func tempPrefix(name string) string {
	dir, base := filepath.Split(name)
	return filepath.Join(dir, "."+base+".tmp-")
}

// createUnique calls create with random names that begin with prefix, until a name is unused.
func createUnique(prefix string, create func(name string) (*os.File, error)) (*os.File, error) {
	for {
		f, err := create(prefix + rand.Text())
		if !errors.Is(err, fs.ErrExist) {
			return f, err
		}
	}
}

// Commit syncs the file, gives it its final name and syncs the folder. If the name is in use, Commit replaces that
// file if replace is set, and otherwise fails with fs.ErrExist. It never follows a symbolic link. If it fails, call
// Discard.
func (t *Temp) Commit(replace bool) error {
	if err := t.Sync(); err != nil {
		return fmt.Errorf("sync %s: %w", t.Name(), err)
	}
	rename := RenameNew
	if replace {
		rename = RenameOver
	}
	if err := rename(t.Name(), t.name); err != nil {
		return err
	}
	t.done = true
	if err := t.Close(); err != nil { // close last: until the rename, the lock keeps RemoveDead from removing the file
		return fmt.Errorf("close %s: %w", t.name, err)
	}
	return SyncDir(t.name)
}

// Discard removes the file, except after a successful Commit.
func (t *Temp) Discard() {
	if !t.done {
		_ = t.Close() // it may already be closed
		_ = os.Remove(t.Name())
	}
}

// Remove removes the file name, which is open as f. On Windows it then closes f, because some file systems keep the
// file until it is closed. It closes f last, because f may hold a lock.
func Remove(f *os.File, name string) error {
	err := remove(name)
	if runtime.GOOS == "windows" {
		_ = f.Close() // ignore the error: nobody needs the data of f any more
	}
	return err
}

// HasName reports whether name is still the name of the open file f. If this process may not look up the name, for
// example because it has given up rights, HasName reports whether f has any name.
func HasName(f *os.File, name string) bool {
	if _, err := os.Lstat(name); errors.Is(err, fs.ErrPermission) {
		return !IsRemoved(f)
	}
	return SameFile(f, name)
}

// IsUnmounted reports whether the folder of the file name is on another device than before. The parameter was describes
// the earlier state of this folder. If the folder does not exist, the nearest folder above it counts.
func IsUnmounted(was os.FileInfo, name string) bool {
	for dir := filepath.Dir(name); ; dir = filepath.Dir(dir) {
		is, err := os.Stat(dir)
		if err == nil {
			return !sameDevice(is, was)
		}
		if !errors.Is(err, fs.ErrNotExist) || dir == filepath.Dir(dir) {
			return false
		}
	}
}

// RestoreDir makes the folder of the file name again if the folder was removed. The parameter was describes the earlier
// state of this folder. RestoreDir makes only the last folder in the path, and only on the same device. The error says
// why no file can be made in the folder, for example because it is a symbolic link or not a folder.
func RestoreDir(was os.FileInfo, name string) error {
	dir := filepath.Dir(name)
	parent, err := os.Stat(filepath.Dir(dir))
	if err != nil {
		return err
	}
	if sameDevice(parent, was) {
		if err := os.Mkdir(dir, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
			return err
		}
	}
	is, err := os.Lstat(dir)
	switch {
	case err != nil:
		return err
	case !is.IsDir():
		return &fs.PathError{Op: "create", Path: dir, Err: errors.New("not a folder")}
	}
	return nil
}
