//go:build !linux

package osfile

import "os"

// SharedMemory returns "", because only Linux has such a folder.
func SharedMemory() string { return "" }

// FreeBytes returns 0, because its result is used only on Linux.
func FreeBytes(string) int64 { return 0 }

// MemoryLimit returns 0, because only Linux has control groups.
func MemoryLimit() int64 { return 0 }

// OwnFolder makes the folder name if it does not exist. It reports whether name is a folder.
func OwnFolder(name string) bool {
	if err := os.Mkdir(name, 0o700); err != nil && !os.IsExist(err) {
		return false
	}
	fi, err := os.Lstat(name)
	return err == nil && fi.IsDir()
}

// IsOwn reports whether f is a regular file.
func IsOwn(f, _ *os.File) bool {
	fi, err := f.Stat()
	return err == nil && fi.Mode().IsRegular()
}

// Device returns "". The id is only needed where processes can share a folder without sharing memory, as in
// containers.
func Device(string) string { return "" }
