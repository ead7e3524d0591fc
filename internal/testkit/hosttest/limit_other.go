//go:build !unix

package hosttest

import "testing"

// LimitFiles skips the test, because this system cannot limit the size of files.
func LimitFiles(t *testing.T, _ int64) (restore func()) {
	t.Helper()
	t.Skip("this system cannot limit the size of files")
	return nil
}
