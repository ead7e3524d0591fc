//go:build unix

package gotrace

import (
	"os"
	"syscall"
	"time"
)

// longSyscall spends the time d in a system call.
func longSyscall(d time.Duration) {
	var p [2]int
	if err := syscall.Pipe(p[:]); err != nil {
		panic(err)
	}
	r, w := p[0], os.NewFile(uintptr(p[1]), "pipe")
	time.AfterFunc(d, func() { _ = w.Close() })
	_, _ = syscall.Read(r, make([]byte, 1))
	_ = syscall.Close(r)
}
