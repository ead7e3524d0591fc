//go:build !unix

package examples_test

import "os"

// interrupt sends the signal that asks for a trace, where there is one.
func interrupt(*os.Process) bool { return false }
