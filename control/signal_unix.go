//go:build unix

package control

import (
	"os"
	"slices"

	"golang.org/x/sys/unix"
)

// askable are the signals that may ask for a trace: the others end a process, or are
// the runtime's.
var askable = []string{"SIGUSR1", "SIGUSR2", "SIGHUP", "SIGALRM", "SIGCONT", "SIGIO", "SIGWINCH", "SIGINFO"}

// signalNamed returns the signal that a configuration calls name.
func signalNamed(name string) (os.Signal, bool) {
	n := unix.SignalNum(name)
	return n, n != 0 && slices.Contains(askable, name)
}
