//go:build unix

package examples_test

import (
	"os"
	"syscall"
)

// interrupt sends the signal that asks for a trace, and reports whether that worked.
func interrupt(p *os.Process) bool { return p.Signal(syscall.SIGUSR1) == nil }
