//go:build !unix

package control

import "os"

// signalNamed returns the signal with the given name, if it may request a trace. On this system
// no signal may.
func signalNamed(string) (os.Signal, bool) { return nil, false }
