//go:build unix

package bench

import (
	"syscall"
	"time"
)

// syncDisks writes all pending data of the system to the disks.
func syncDisks() { syscall.Sync() }

// cpuTime returns the CPU time of this process. It returns false if the time is not known.
func cpuTime() (time.Duration, bool) {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		return 0, false
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano()), true
}
