//go:build !linux

package osfile

// Populate does nothing.
func Populate([]byte) {}

// Forget does nothing.
func Forget([]byte, int, int) {}
