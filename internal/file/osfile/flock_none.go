//go:build solaris || illumos || aix

package osfile

import "os"

// These systems have no flock, so it is not known which files belong to living processes.
func flock(*os.File, int) error { return ErrNoLocks }
