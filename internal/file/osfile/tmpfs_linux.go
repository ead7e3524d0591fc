package osfile

import "golang.org/x/sys/unix"

// OnTmpfs reports whether a folder is in a tmpfs, whose pages are never written to a disk.
func OnTmpfs(dir string) bool {
	var st unix.Statfs_t
	return unix.Statfs(dir, &st) == nil && st.Type == unix.TMPFS_MAGIC
}
