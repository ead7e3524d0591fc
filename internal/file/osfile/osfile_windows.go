package osfile

import (
	"crypto/rand"
	"errors"
	"os"
	"time"

	"golang.org/x/sys/windows"
)

const (
	openNonblock = 0
	openNofollow = 0 // OpenWrite has checked for a symbolic link
)

// lockOffset is after the end of every file, because on Windows nobody else can read
// locked bytes.
const lockOffset = 1 << 62

// Lock takes an exclusive or shared lock of f, or returns ErrLocked at once. The exclusive
// lock shows that a process is writing f. The system releases a lock when its process ends.
func Lock(f *os.File, exclusive bool) error {
	flags := uint32(windows.LOCKFILE_FAIL_IMMEDIATELY)
	if exclusive {
		flags |= windows.LOCKFILE_EXCLUSIVE_LOCK
	}
	o := &windows.Overlapped{OffsetHigh: lockOffset >> 32}
	err := windows.LockFileEx(windows.Handle(f.Fd()), flags, 0, 1, 0, o)
	if errors.Is(err, windows.ERROR_LOCK_VIOLATION) || errors.Is(err, windows.ERROR_IO_PENDING) {
		return ErrLocked
	}
	return err
}

// Unlock releases the lock of f. Closing f also releases it.
func Unlock(f *os.File) error {
	o := &windows.Overlapped{OffsetHigh: lockOffset >> 32}
	return windows.UnlockFileEx(windows.Handle(f.Fd()), 0, 1, 0, o)
}

// syncDir does nothing: a folder cannot be synced on Windows. A rename is durable because of the
// journal of the file system.
func syncDir(string) error { return nil }

// openLink makes openFile open a symbolic link itself.
const openLink = 1 << 30

// openFile is like os.OpenFile with the flags that this package uses. Unlike os.OpenFile, it
// allows other processes to rename and remove the file while it is open.
func openFile(name string, flag int) (*os.File, error) {
	access, create := uint32(windows.GENERIC_READ), uint32(windows.OPEN_EXISTING)
	attributes := uint32(windows.FILE_ATTRIBUTE_NORMAL)
	switch {
	case flag&os.O_APPEND != 0:
		// If the file were open for writing anywhere, the system would not append.
		access |= windows.FILE_APPEND_DATA | windows.FILE_WRITE_ATTRIBUTES | windows.FILE_WRITE_EA | windows.STANDARD_RIGHTS_WRITE
	case flag&os.O_RDWR != 0:
		access |= windows.GENERIC_WRITE
	default:
		attributes |= windows.FILE_FLAG_BACKUP_SEMANTICS // opens a folder as well, which is then rejected as not regular
	}
	if flag&os.O_EXCL != 0 {
		create = windows.CREATE_NEW
	}
	if flag&(os.O_EXCL|openLink) != 0 {
		attributes |= windows.FILE_FLAG_OPEN_REPARSE_POINT // a symbolic link is not followed
	}
	var h windows.Handle
	err := withPath(name, func(path *uint16) (err error) {
		h, err = windows.CreateFile(path, access, windows.FILE_SHARE_READ|windows.FILE_SHARE_WRITE|windows.FILE_SHARE_DELETE, nil, create, attributes, 0)
		return err
	})
	if err != nil {
		return nil, &os.PathError{Op: "open", Path: name, Err: err}
	}
	return os.NewFile(uintptr(h), name), nil
}

// RenameNew renames a file. The file may be open. If the new name is in use, RenameNew fails with
// fs.ErrExist.
func RenameNew(from, to string) error { return rename(from, to, 0) }

// RenameOver renames a file. The file may be open. If a file with the new name exists, it is
// replaced. The system does not replace a file that is open, so RenameOver removes such a file first.
func RenameOver(from, to string) error {
	err := rename(from, to, windows.MOVEFILE_REPLACE_EXISTING)
	if !errors.Is(err, windows.ERROR_ACCESS_DENIED) {
		return err
	}
	if fi, lerr := os.Lstat(to); lerr != nil || !fi.Mode().IsRegular() {
		return err
	}
	_ = remove(to) // if it fails, RenameNew returns an error
	return RenameNew(from, to)
}

func rename(from, to string, flags uint32) error {
	err := patiently(func() error {
		return withPath(from, func(from *uint16) error {
			return withPath(to, func(to *uint16) error { return windows.MoveFileEx(from, to, flags) })
		})
	})
	if err != nil {
		return &os.LinkError{Op: "rename", Old: from, New: to, Err: err}
	}
	return nil
}

// SameFile reports whether name is still the name of the open file f.
func SameFile(f *os.File, name string) bool {
	g, err := openFile(name, os.O_RDONLY|openLink)
	if err != nil {
		return false
	}
	defer g.Close()
	// Do not compare the volume, which os.SameFile does: a renamed file stays on its volume, and
	// wine does not know the volume of a renamed file.
	var a, b windows.ByHandleFileInformation
	return windows.GetFileInformationByHandle(windows.Handle(f.Fd()), &a) == nil &&
		windows.GetFileInformationByHandle(windows.Handle(g.Fd()), &b) == nil &&
		a.FileIndexHigh == b.FileIndexHigh && a.FileIndexLow == b.FileIndexLow
}

// remove frees the name at once. The file itself may exist under the name of a temporary file
// until all processes that have it open close it.
func remove(name string) error {
	if tmp := tempPrefix(name) + rand.Text(); RenameNew(name, tmp) == nil {
		name = tmp
	}
	return patiently(func() error { return os.Remove(name) })
}

func withPath(name string, fn func(*uint16) error) error {
	path, err := windows.UTF16PtrFromString(name)
	if err != nil {
		return err
	}
	return fn(path)
}

// The function patiently tries renameTries times, with pauses of renamePause. Programs that read every
// new file, such as virus scanners, have a file open for less time.
const (
	renameTries = 10
	renamePause = 10 * time.Millisecond
)

// patiently calls fn. If fn fails because another program has a file open, patiently calls it again
// for a while.
func patiently(fn func() error) error {
	for try := 1; ; try++ {
		err := fn()
		if try == renameTries || !errors.Is(err, windows.ERROR_SHARING_VIOLATION) && !errors.Is(err, windows.ERROR_ACCESS_DENIED) {
			return err
		}
		time.Sleep(renamePause)
	}
}
