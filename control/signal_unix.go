//go:build unix

package control

import (
	"os"
	"slices"

	"golang.org/x/sys/unix"
)

// askable lists the signals that may request a trace. Other signals end a process, or the runtime uses
// them.
var askable = []string{"SIGUSR1", "SIGUSR2", "SIGHUP", "SIGALRM", "SIGCONT", "SIGIO", "SIGWINCH", "SIGINFO"}

// signalNamed returns the signal with the given name, if it may request a trace.
func signalNamed(name string) (os.Signal, bool) {
	n := unix.SignalNum(name)
	return n, n != 0 && slices.Contains(askable, name)
}
