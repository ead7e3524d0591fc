//go:build !unix && !windows

package osfile

import "os"

// IsRemoved returns false, because these systems do not show whether an open file has a name.
func IsRemoved(*os.File) bool { return false }

func sameDevice(os.FileInfo, os.FileInfo) bool { return true }
