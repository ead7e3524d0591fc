//go:build !unix && !windows

package osfile

import "os"

const (
	openNonblock = 0
	openNofollow = 0
)

const haveLocks = false

// Lock does nothing here: two processes must not be given one path.
func Lock(*os.File, bool) error { return nil }

// Unlock undoes Lock.
func Unlock(*os.File) error { return nil }

func syncDir(string) error { return nil }
