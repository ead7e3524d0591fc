//go:build darwin || dragonfly || freebsd || linux || netbsd || openbsd

package provider

import "syscall"

// addRusage sets the statistics of getrusage for the whole process.
func (u *usage) addRusage() {
	var r syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &r) != nil {
		return
	}
	u[userTime], u[systemTime] = maybe{uint64(r.Utime.Nano()), true}, maybe{uint64(r.Stime.Nano()), true}
	// On 32-bit systems these fields are int32 and wrap.
	u[majorFaults], u[minorFaults] = maybe{uint64(uint(r.Majflt)), true}, maybe{uint64(uint(r.Minflt)), true}
	u[voluntary], u[involuntary] = maybe{uint64(uint(r.Nvcsw)), true}, maybe{uint64(uint(r.Nivcsw)), true}
}
