//go:build !linux && !darwin

package osfile

// BootID returns "": only Linux and macOS say it.
func BootID() string { return "" }
