//go:build unix && !freebsd && !dragonfly

package hosttest

import "golang.org/x/sys/unix"

func setLimit(l *unix.Rlimit, size int64) { l.Cur = uint64(size) }
