//go:build !linux && !darwin && !windows

package osfile

// RenameNew renames a file and fails with fs.ErrExist when to exists already.
func RenameNew(from, to string) error { return renameLink(from, to) }
