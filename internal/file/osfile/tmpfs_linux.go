package osfile

import "golang.org/x/sys/unix"

// OnTmpfs reports whether a folder is on a tmpfs, whose pages the system never writes to a disk file.
func OnTmpfs(dir string) bool {
	var st unix.Statfs_t
	return unix.Statfs(dir, &st) == nil && st.Type == unix.TMPFS_MAGIC
}
