//go:build !unix && !windows

package osfile

import "os"

const (
	openNonblock = 0
	openNofollow = 0
)

// Lock returns ErrNoLocks. Without an error, the files of living processes would look like
// the files of dead ones.
func Lock(*os.File, bool) error { return ErrNoLocks }

// Unlock undoes Lock.
func Unlock(*os.File) error { return nil }

func syncDir(string) error { return nil }
