//go:build !unix

package alonetest

import "testing"

// LimitFiles skips the test: a process cannot be limited here.
func LimitFiles(t *testing.T, _ int64) (restore func()) {
	t.Helper()
	t.Skip("no process can be limited here")
	return nil
}
