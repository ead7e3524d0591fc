//go:build unix

package control

import (
	"os"

	"golang.org/x/sys/unix"
)

// signalNamed returns the signal that a configuration calls name.
func signalNamed(name string) (os.Signal, bool) {
	n := unix.SignalNum(name)
	return n, n != 0 && n != unix.SIGKILL && n != unix.SIGSTOP
}
