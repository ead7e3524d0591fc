//go:build !linux && !darwin

package osfile

// BootID returns "": only Linux and macOS have such an id.
func BootID() string { return "" }
