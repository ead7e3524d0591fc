//go:build unix

package osfile

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

const (
	openNonblock = unix.O_NONBLOCK
	openNofollow = unix.O_NOFOLLOW
)

// Lock takes an exclusive or shared lock of f. It returns ErrLocked at once if another open file has a lock that
// prevents this. The exclusive lock shows that a process is writing f. The system releases the locks of a process
// when it ends.
func Lock(f *os.File, exclusive bool) error {
	how := unix.LOCK_SH
	if exclusive {
		how = unix.LOCK_EX
	}
	for {
		err := flock(f, how|unix.LOCK_NB)
		switch {
		case err == nil:
			return nil
		case errors.Is(err, unix.EINTR):
		case errors.Is(err, unix.EWOULDBLOCK):
			return ErrLocked
		case errors.Is(err, ErrNoLocks), errors.Is(err, unix.ENOLCK), errors.Is(err, unix.ENOSYS), errors.Is(err, unix.EOPNOTSUPP), errors.Is(err, unix.ENOTSUP):
			return ErrNoLocks
		default:
			return &os.PathError{Op: "lock", Path: f.Name(), Err: err}
		}
	}
}

// Unlock releases the lock of f. Closing f also releases it.
func Unlock(f *os.File) error { return flock(f, unix.LOCK_UN) }

func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	err = d.Sync()
	if errors.Is(err, unix.EINVAL) || errors.Is(err, unix.ENOTSUP) {
		err = nil // the file system does not support it
	}
	return errors.Join(err, d.Close())
}
