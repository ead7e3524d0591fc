// Package osfile opens, locks, syncs and replaces files in the way that traces
// need. Files are private to the user. Writing does not follow symbolic links, and
// opening does not block. Functions that promise durability sync the disk.
package osfile

import (
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

// ErrLocked is returned by Lock when another open file holds the lock.
var ErrLocked = errors.New("locked")

// ErrNoLocks is returned by Lock if the system or the file system has no locks.
var ErrNoLocks = errors.New("the file system has no locks")

// A file that this package opens may be renamed and removed while it is open, on Windows as on
// other systems.

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

// CreateAppend creates a file that must not exist, for reading and for writing
// at its end.
func CreateAppend(name string) (*os.File, error) {
	return openFile(name, os.O_RDWR|os.O_APPEND|os.O_CREATE|os.O_EXCL|openNofollow)
}

// CreateNew creates a file that must not exist, for reading and writing.
func CreateNew(name string) (*os.File, error) {
	return openFile(name, os.O_RDWR|os.O_CREATE|os.O_EXCL|openNofollow)
}

// Allocate extends f by n zero bytes that exist on disk. off is the end of f.
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

// Ignore returns nil if err matches other, else err.
func Ignore(err, other error) error {
	if errors.Is(err, other) {
		return nil
	}
	return err
}

// Stat is like [os.Stat], but on Windows its result also identifies the file for [os.SameFile]. A result of
// os.Stat looks the file up by its name only when it is compared on Windows, and by then another file may
// have the name.
func Stat(name string) (os.FileInfo, error) {
	fi, err := os.Stat(name)
	if err == nil {
		_ = os.SameFile(fi, fi)
	}
	return fi, err
}

// Exists reports whether the name is in use, even if only by a symbolic link.
func Exists(name string) bool {
	_, err := os.Lstat(name)
	return err == nil
}

func notSymlink(name string) error {
	fi, err := os.Lstat(name)
	if err == nil && !fi.Mode().IsRegular() {
		err = &fs.PathError{Op: "open", Path: name, Err: ErrNotRegular}
	}
	return err
}

// SyncDir syncs the folder of the file name, which makes the names in it durable.
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
	_ = Lock(f, true) // so that RemoveDead keeps the file, if the system has locks
	return &Temp{File: f, name: name}, nil
}

// A Spool is a temporary file for data that does not fit into memory. The file has no name, so
// it disappears when the process ends, even if the process is killed. On some file systems
// of Windows it has a name until Close.
type Spool struct {
	*os.File

	name string // not empty if the name could not be removed yet
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

// Close closes and removes the file. The file may be closed already.
func (s *Spool) Close() error {
	err := Ignore(s.File.Close(), os.ErrClosed)
	if s.name != "" {
		err = errors.Join(err, os.Remove(s.name))
		s.name = ""
	}
	return err
}

// SettleTime is the longest time between making a file and locking it.
const SettleTime = time.Second

// RemoveDead removes a temporary file if the process that made it is dead. It keeps a
// file that is newer than SettleTime, because the file may not be locked yet.
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
		_ = Remove(f, name) // the next call tries again
	}
}

// CreateTempAppend makes a temporary file in the folder of name, for writing at
// the end of the file. The caller renames or removes the file.
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

// createUnique creates a file with an unused name that begins with prefix.
func createUnique(prefix string, create func(name string) (*os.File, error)) (*os.File, error) {
	for {
		f, err := create(prefix + rand.Text())
		if !errors.Is(err, fs.ErrExist) {
			return f, err
		}
	}
}

// Commit syncs the file, gives it its final name and syncs the folder. If replace
// is not set and the name is in use, it fails with fs.ErrExist. It never follows a
// symbolic link. If Commit fails, call Discard.
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
	if err := t.Close(); err != nil { // after the rename: RemoveDead removes temporary files without a lock
		return fmt.Errorf("close %s: %w", t.name, err)
	}
	return SyncDir(t.name)
}

// Discard removes the file unless Commit gave it its name.
func (t *Temp) Discard() {
	if !t.done {
		_ = t.Close() // it may be closed already
		_ = os.Remove(t.Name())
	}
}

// Remove removes the file name, which is open as f. On Windows Remove also closes f, because some
// file systems there keep the file until it is closed. It closes f last, because f may be locked.
func Remove(f *os.File, name string) error {
	err := remove(name)
	if runtime.GOOS == "windows" {
		_ = f.Close() // ignore an error: the data of f is in another file, or not needed
	}
	return err
}

// RestoreDir makes the folder of the file name again if the folder is gone. f is this file, which is open and
// has lost its name. RestoreDir makes only the last element of the path, and only on the device of f. The
// error says why a file cannot be made in the folder: the folder is a symbolic link, is not a folder, or is
// on another device.
func RestoreDir(f *os.File, name string) error {
	like, err := f.Stat()
	if err != nil {
		return err
	}
	dir := filepath.Dir(name)
	parent, err := os.Stat(filepath.Dir(dir))
	if err != nil {
		return err
	}
	if sameDevice(parent, like) {
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
	case !sameDevice(is, like):
		return &fs.PathError{Op: "create", Path: dir, Err: errors.New("the folder is on another device than before")}
	}
	return nil
}
