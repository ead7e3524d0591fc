//go:build !unix

package examples_test

import "os"

// interrupt returns false: this system has no signal that asks for a trace.
func interrupt(*os.Process) bool { return false }
