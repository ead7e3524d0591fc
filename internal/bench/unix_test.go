//go:build unix

package bench

import (
	"syscall"
	"time"
)

// syncDisks leaves the disks nothing to write.
func syncDisks() { syscall.Sync() }

// cpuTime returns what this process has used of the CPU, if that can be known.
func cpuTime() (time.Duration, bool) {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		return 0, false
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano()), true
}
