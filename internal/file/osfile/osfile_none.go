//go:build !unix && !windows

package osfile

import "os"

const (
	openNonblock = 0
	openNofollow = 0
)

// Lock returns ErrNoLocks. If it returned nil, the files of living processes would look like
// the files of dead processes.
func Lock(*os.File, bool) error { return ErrNoLocks }

// Unlock undoes Lock.
func Unlock(*os.File) error { return nil }

func syncDir(string) error { return nil }
