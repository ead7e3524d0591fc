package osfile

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

func allocate(f *os.File, off, n int64) error {
	err := control(f, func(fd int) error {
		for {
			if err := unix.Fallocate(fd, 0, off, n); !errors.Is(err, unix.EINTR) {
				return err
			}
		}
	})
	if errors.Is(err, unix.EOPNOTSUPP) || errors.Is(err, unix.ENOSYS) {
		return errors.ErrUnsupported
	}
	return err
}
