//go:build !windows

package osfile

import "os"

func openFile(name string, flag int) (*os.File, error) { return os.OpenFile(name, flag, 0o600) }

func remove(name string) error { return os.Remove(name) }

// RenameOver renames a file. The file may be open. An existing file with the new name is replaced.
func RenameOver(from, to string) error { return os.Rename(from, to) }

// SameFile reports whether name is still the name of the open file f.
func SameFile(f *os.File, name string) bool {
	a, err := f.Stat()
	if err != nil {
		return false
	}
	b, err := os.Lstat(name)
	return err == nil && os.SameFile(a, b)
}
