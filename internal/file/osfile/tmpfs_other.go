//go:build !linux

package osfile

// OnTmpfs reports whether a folder is in a tmpfs, which only Linux has.
func OnTmpfs(string) bool { return false }
