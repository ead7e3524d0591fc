//go:build !unix

package control

import "os"

// signalNamed returns false: no signal may request a trace on this system.
func signalNamed(string) (os.Signal, bool) { return nil, false }
