//go:build !unix && !windows

package osfile

import "os"

const (
	openNonblock = 0
	openNofollow = 0
)

// Lock returns ErrNoLocks. If it returned nil, files of living processes would count as files of dead processes.
func Lock(*os.File, bool) error { return ErrNoLocks }

// Unlock does nothing.
func Unlock(*os.File) error { return nil }

func syncDir(string) error { return nil }
