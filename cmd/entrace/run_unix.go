//go:build unix

package main

import (
	"errors"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"slices"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// forwarded are the signals that run passes on to the command.
var forwarded = []os.Signal{
	syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGQUIT, syscall.SIGUSR1, syscall.SIGUSR2, syscall.SIGCONT, syscall.SIGWINCH,
}

// detached starts a process in a new session, so that it outlives this process.
var detached = &syscall.SysProcAttr{Setsid: true}

// ofTerminal are the signals that a terminal sends to its whole foreground process group.
var ofTerminal = []os.Signal{syscall.SIGINT, syscall.SIGQUIT, syscall.SIGWINCH, syscall.SIGHUP}

// A witness is a process in this process's group that reports the signals it gets. If the witness gets the same
// signal, the signal came from the terminal, and the command got it as well. Otherwise another process sent it to
// this process only, which must pass it on.
type witness struct {
	in  io.WriteCloser
	out io.Reader
	got uint64 // bit N is set if the witness got signal N and saw has not yet returned true for it
}

// witnessCommand is the name of the command that runs a witness.
const witnessCommand = "bear-witness"

// witnessWait is how long a witness waits for a signal before it answers. The witness itself measures the time, so
// that a busy machine delays the signal and the answer equally.
const witnessWait = 100 * time.Millisecond

// newWitness returns nil if this process is not in the foreground of a terminal.
func newWitness() *witness {
	foreground := func(f *os.File) bool {
		group, err := unix.IoctlGetInt(int(f.Fd()), unix.TIOCGPGRP)
		return err == nil && group == unix.Getpgrp()
	}
	self, err := os.Executable()
	if err != nil || !foreground(os.Stdin) && !foreground(os.Stderr) && !foreground(os.Stdout) {
		return nil
	}
	cmd := exec.Command(self, witnessCommand) //nolint:gosec,noctx // it ends with its input
	in, err := cmd.StdinPipe()
	out, err2 := cmd.StdoutPipe()
	if errors.Join(err, err2) != nil || cmd.Start() != nil {
		return nil
	}
	if _, err := io.ReadFull(out, make([]byte, 1)); err != nil { // the witness listens now
		return nil
	}
	return &witness{in: in, out: out}
}

// saw reports whether s, a signal that this process got, came from the terminal.
func (w *witness) saw(s os.Signal) bool {
	n, isNumber := s.(syscall.Signal)
	if w == nil || !isNumber || !slices.Contains(ofTerminal, s) {
		return false
	}
	_, err := w.in.Write([]byte{0})
	for b := []byte{255}; err == nil && b[0] > 0; w.got |= 1 << b[0] {
		_, err = w.out.Read(b)
	}
	bit := uint64(1) << n
	saw := w.got&bit > 0
	w.got &^= bit
	return saw
}

func (w *witness) close() {
	if w != nil {
		_ = w.in.Close()
	}
}

// bearWitness runs a witness until its input ends. It writes the number of each signal that it gets. For each
// input byte it waits for witnessWait, so that earlier signals arrive first, and then writes 0.
func bearWitness() error {
	signals := make(chan os.Signal, 64)
	signal.Notify(signals, ofTerminal...)
	_, err := os.Stdout.Write([]byte{0})
	go func() {
		for s := range signals {
			if n, ok := s.(syscall.Signal); ok {
				_, _ = os.Stdout.Write([]byte{byte(n)})
			}
		}
	}()
	for b := make([]byte, 1); err == nil; _, err = os.Stdout.Write([]byte{0}) {
		if _, err := os.Stdin.Read(b); err != nil {
			return nil
		}
		time.Sleep(witnessWait)
	}
	return err
}

// signalOf returns the number of the signal that ended a process, or 0 if no signal did.
func signalOf(state *os.ProcessState) int {
	if w, ok := state.Sys().(syscall.WaitStatus); ok && w.Signaled() {
		return int(w.Signal())
	}
	return 0
}

// stopSelf stops this process, as ^Z does, until the shell continues it.
func stopSelf() error { return syscall.Kill(0, syscall.SIGTSTP) }
