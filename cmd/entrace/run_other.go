//go:build !unix

package main

import "os"

// forwarded are the signals that go on to the command of run.
var forwarded = []os.Signal{os.Interrupt}

// fromTerminal reports that the console has sent an interrupt to the command as well.
func fromTerminal(os.Signal) bool { return true }

// signalOf returns 0: signals end nothing here.
func signalOf(*os.ProcessState) int { return 0 }
