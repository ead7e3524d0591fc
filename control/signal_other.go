//go:build !unix

package control

import "os"

// signalNamed returns the signal that a configuration calls name: on this system
// no signal may ask for a trace.
func signalNamed(string) (os.Signal, bool) { return nil, false }
