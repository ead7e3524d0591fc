package osfile

import "golang.org/x/sys/unix"

// OnTmpfs reports whether a folder is in a tmpfs. The system never writes pages of a tmpfs to a disk.
func OnTmpfs(dir string) bool {
	var st unix.Statfs_t
	return unix.Statfs(dir, &st) == nil && st.Type == unix.TMPFS_MAGIC
}
