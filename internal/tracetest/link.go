package tracetest

import (
	"os"
	"testing"
)

// Symlink makes a symbolic link. It skips the test where there are none, as under wine, which says
// that it has made one.
func Symlink(t *testing.T, to, name string) {
	t.Helper()
	err := os.Symlink(to, name)
	if err == nil {
		_, err = os.Lstat(name)
	}
	if err != nil {
		t.Skip("no symbolic links: ", err)
	}
}
