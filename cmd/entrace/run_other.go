//go:build !unix

package main

import (
	"os"
	"syscall"
)

// forwarded are the signals that run passes on to the command.
var forwarded = []os.Signal{os.Interrupt}

var detached *syscall.SysProcAttr

const witnessCommand = "bear-witness"

// A witness reports that the console also sends an interrupt to the command.
type witness struct{}

func newWitness() *witness { return nil }

func (*witness) saw(os.Signal) bool { return true }

func (*witness) close() {}

func bearWitness() error { return nil }

// signalOf returns 0: on this system signals do not end processes.
func signalOf(*os.ProcessState) int { return 0 }

// stopSelf does nothing: this system has no jobs.
func stopSelf() error { return nil }
