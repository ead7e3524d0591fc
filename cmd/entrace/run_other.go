//go:build !unix

package main

import (
	"os"
	"syscall"
)

// forwarded are the signals that run passes on to the command.
var forwarded = []os.Signal{os.Interrupt}

var detached *syscall.SysProcAttr

// fromTerminal returns true: the console sends an interrupt to the command as well.
func fromTerminal(os.Signal) bool { return true }

// signalOf returns 0: on this system signals do not end processes.
func signalOf(*os.ProcessState) int { return 0 }
