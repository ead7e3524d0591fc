//go:build unix

package osfile

import (
	"os"
	"syscall"
)

// IsRemoved reports whether the open file f no longer has a name.
func IsRemoved(f *os.File) bool {
	fi, err := f.Stat()
	if err != nil {
		return false
	}
	st, ok := fi.Sys().(*syscall.Stat_t)
	return ok && st.Nlink == 0
}

// sameDevice reports whether two files are on the same device. It returns true if a device is unknown.
func sameDevice(a, b os.FileInfo) bool {
	s, _ := a.Sys().(*syscall.Stat_t)
	t, _ := b.Sys().(*syscall.Stat_t)
	return s == nil || t == nil || s.Dev == t.Dev
}
