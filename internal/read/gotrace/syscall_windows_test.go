package gotrace

import (
	"syscall"
	"time"
)

// longSyscall spends the time d in a system call.
func longSyscall(d time.Duration) {
	_, _ = syscall.WaitForSingleObject(syscall.Handle(^uintptr(0)), uint32(d.Milliseconds()))
}
