package gotrace

import (
	"syscall"
	"time"
)

// longSyscall is in a system call for some time.
func longSyscall(d time.Duration) {
	_, _ = syscall.WaitForSingleObject(syscall.Handle(^uintptr(0)), uint32(d.Milliseconds()))
}
