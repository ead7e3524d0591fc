//go:build !linux && !darwin && !windows

package osfile

// RenameNew renames a file. If the new name is in use, it fails with fs.ErrExist.
func RenameNew(from, to string) error { return renameLink(from, to) }
