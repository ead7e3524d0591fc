//go:build !unix && !windows

package osfile

import "os"

const (
	openNonblock = 0
	openNofollow = 0
)

// Lock returns ErrNoLocks, so that nobody takes the files of living processes for those of
// dead ones.
func Lock(*os.File, bool) error { return ErrNoLocks }

// Unlock undoes Lock.
func Unlock(*os.File) error { return nil }

func syncDir(string) error { return nil }
