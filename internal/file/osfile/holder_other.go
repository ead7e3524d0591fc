//go:build !linux

package osfile

import "os"

// lockPID returns 0: only Linux shows which process holds a lock.
func lockPID(*os.File) int { return 0 }
