//go:build unix

package hosttest

import (
	"testing"

	"golang.org/x/sys/unix"
)

// LimitFiles makes writes beyond the first size bytes of a file fail, as on a full disk, until restore is called
// or the test ends.
func LimitFiles(t *testing.T, size int64) (restore func()) {
	t.Helper()
	var was unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_FSIZE, &was); err != nil {
		t.Fatal(err)
	}
	set := func(l unix.Rlimit) {
		if err := unix.Setrlimit(unix.RLIMIT_FSIZE, &l); err != nil {
			t.Fatal(err)
		}
	}
	limited := was
	setLimit(&limited, size)
	set(limited)
	restore = func() { set(was) }
	t.Cleanup(restore)
	return restore
}
