//go:build unix && !solaris && !illumos && !aix

package osfile

import (
	"os"

	"golang.org/x/sys/unix"
)

func flock(f *os.File, how int) error {
	return control(f, func(fd int) error { return unix.Flock(fd, how) })
}

// control runs fn on the descriptor of f. Unlike f.Fd, it does not make f blocking.
func control(f *os.File, fn func(fd int) error) error {
	c, err := f.SyscallConn()
	if err != nil {
		return err
	}
	var ferr error
	if err := c.Control(func(fd uintptr) { ferr = fn(int(fd)) }); err != nil {
		return err
	}
	return ferr
}
