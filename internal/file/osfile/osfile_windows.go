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
	openNofollow = 0 // OpenWrite checks for a symbolic link itself
)

// lockOffset is the offset of the locked byte. It is after the end of every file, because on Windows other
// processes cannot read locked bytes.
const lockOffset = 1 << 62

// Lock takes an exclusive or shared lock of f. It returns ErrLocked at once if another open file has a lock that
// prevents this. The exclusive lock shows that a process is writing f. The system releases the locks of a process
// when it ends.
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

// syncDir does nothing, because Windows cannot sync a folder. The journal of the file system makes renames durable.
func syncDir(string) error { return nil }

// openLink makes openFile open a symbolic link itself, instead of its target.
const openLink = 1 << 30

// openFile is like os.OpenFile, for the flags that this package uses. Unlike os.OpenFile, it allows other processes
// to rename and remove the file while it is open.
func openFile(name string, flag int) (*os.File, error) {
	access, create := uint32(windows.GENERIC_READ), uint32(windows.OPEN_EXISTING)
	attributes := uint32(windows.FILE_ATTRIBUTE_NORMAL)
	switch {
	case flag&os.O_APPEND != 0:
		// If it also had the right to write at any offset, the system would not append.
		access |= windows.FILE_APPEND_DATA | windows.FILE_WRITE_ATTRIBUTES | windows.FILE_WRITE_EA | windows.STANDARD_RIGHTS_WRITE
	case flag&os.O_RDWR != 0:
		access |= windows.GENERIC_WRITE
	default:
		attributes |= windows.FILE_FLAG_BACKUP_SEMANTICS // also opens a folder, which is rejected later because it is not regular
	}
	if flag&os.O_EXCL != 0 {
		create = windows.CREATE_NEW
	}
	if flag&(os.O_EXCL|openLink) != 0 {
		attributes |= windows.FILE_FLAG_OPEN_REPARSE_POINT // do not follow a symbolic link
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

// RenameNew renames a file. The file may be open. If the new name is in use, it fails with fs.ErrExist.
func RenameNew(from, to string) error { return rename(from, to, 0) }

// RenameOver renames a file. The file may be open. An existing file with the new name is replaced. Windows does not
// replace a file that is open: RenameOver first removes such a file.
func RenameOver(from, to string) error {
	err := rename(from, to, windows.MOVEFILE_REPLACE_EXISTING)
	if !errors.Is(err, windows.ERROR_ACCESS_DENIED) {
		return err
	}
	if fi, lerr := os.Lstat(to); lerr != nil || !fi.Mode().IsRegular() {
		return err
	}
	_ = remove(to) // if this fails, RenameNew returns an error
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
	// Do not compare the volume, as os.SameFile does. A renamed file is still on its volume, and wine does not know
	// the volume of a renamed file.
	var a, b windows.ByHandleFileInformation
	return windows.GetFileInformationByHandle(windows.Handle(f.Fd()), &a) == nil &&
		windows.GetFileInformationByHandle(windows.Handle(g.Fd()), &b) == nil &&
		a.FileIndexHigh == b.FileIndexHigh && a.FileIndexLow == b.FileIndexLow
}

// remove removes the file name. The name is free at once. If other processes have the file open, it exists under a
// temporary name until they close it.
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

// How often the function patiently tries, and the pause between two tries. Programs that read every new file, such
// as virus scanners, keep it open for a shorter time than all tries together.
const (
	renameTries = 10
	renamePause = 10 * time.Millisecond
)

// patiently calls fn. If fn fails because another program has a file open, patiently calls it again, several times.
func patiently(fn func() error) error {
	for try := 1; ; try++ {
		err := fn()
		if try == renameTries || !errors.Is(err, windows.ERROR_SHARING_VIOLATION) && !errors.Is(err, windows.ERROR_ACCESS_DENIED) {
			return err
		}
		time.Sleep(renamePause)
	}
}
