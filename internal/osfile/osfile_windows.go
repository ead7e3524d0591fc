package osfile

import (
	"errors"
	"os"

	"golang.org/x/sys/windows"
)

const (
	openNonblock = 0
	openNofollow = 0 // OpenWrite has looked
)

// lockOffset lies behind every byte that is ever read, since a lock of Windows
// also keeps others from reading what it covers.
const lockOffset = 1 << 62

const haveLocks = true

// Lock takes the lock that tells others that f is being written, exclusive or
// shared, or returns ErrLocked at once. It is gone with the process.
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

// Unlock gives the lock back early; closing f does, too.
func Unlock(f *os.File) error {
	o := &windows.Overlapped{OffsetHigh: lockOffset >> 32}
	return windows.UnlockFileEx(windows.Handle(f.Fd()), 0, 1, 0, o)
}

// A folder cannot be synced on Windows; a rename is durable with the journal.
func syncDir(string) error { return nil }
