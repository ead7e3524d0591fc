//go:build solaris || illumos || aix

package osfile

import "os"

// flock returns ErrNoLocks. These systems have no flock, so files of living processes cannot be told from others.
func flock(*os.File, int) error { return ErrNoLocks }
