//go:build !linux

package osfile

// OnTmpfs returns false, because only Linux has tmpfs.
func OnTmpfs(string) bool { return false }
