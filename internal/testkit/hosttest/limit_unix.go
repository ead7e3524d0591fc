//go:build unix

package hosttest

import (
	"testing"

	"golang.org/x/sys/unix"

	"github.com/entrace-go/entrace/internal/testkit/expect"
)

// LimitFiles makes writes beyond the first size bytes of a file fail, as on a full disk, until restore is called
// or the test ends.
func LimitFiles(t *testing.T, size int64) (restore func()) {
	t.Helper()
	var was unix.Rlimit
	expect.Must(t, unix.Getrlimit(unix.RLIMIT_FSIZE, &was))
	set := func(l unix.Rlimit) {
		expect.Must(t, unix.Setrlimit(unix.RLIMIT_FSIZE, &l))
	}
	limited := was
	setLimit(&limited, size)
	set(limited)
	restore = func() { set(was) }
	t.Cleanup(restore)
	return restore
}
