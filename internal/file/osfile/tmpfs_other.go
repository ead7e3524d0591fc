//go:build !linux

package osfile

// OnTmpfs returns false: only Linux has tmpfs.
func OnTmpfs(string) bool { return false }
