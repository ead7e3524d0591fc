//go:build unix

package main

import (
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// forwarded are the signals that run passes on to the command.
var forwarded = []os.Signal{
	syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGQUIT, syscall.SIGUSR1, syscall.SIGUSR2, syscall.SIGCONT, syscall.SIGWINCH,
}

// detached is of processes that outlive this one.
var detached = &syscall.SysProcAttr{Setsid: true}

// fromTerminal reports whether the terminal has sent the signal s to its whole foreground process
// group. Then the command has received the signal already.
func fromTerminal(s os.Signal) bool {
	if s != syscall.SIGINT && s != syscall.SIGQUIT && s != syscall.SIGWINCH && s != syscall.SIGHUP {
		return false
	}
	for _, f := range []*os.File{os.Stdin, os.Stderr, os.Stdout} {
		if group, err := unix.IoctlGetInt(int(f.Fd()), unix.TIOCGPGRP); err == nil {
			return group == unix.Getpgrp()
		}
	}
	return false
}

// signalOf returns the number of the signal that ended a process, 0 if no signal did.
func signalOf(state *os.ProcessState) int {
	if w, ok := state.Sys().(syscall.WaitStatus); ok && w.Signaled() {
		return int(w.Signal())
	}
	return 0
}
