//go:build !unix && !windows

package osfile

import "os"

// IsRemoved reports whether f, which is open, has no name any more.
func IsRemoved(*os.File) bool { return false }

func sameDevice(os.FileInfo, os.FileInfo) bool { return true }
