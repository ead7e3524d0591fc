//go:build !unix

package control

import "os"

// signalNamed returns the signal that a configuration calls name.
func signalNamed(name string) (os.Signal, bool) { return os.Interrupt, name == "SIGINT" }
