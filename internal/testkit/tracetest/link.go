package tracetest

import (
	"os"
	"runtime"
	"testing"
)

// Symlink makes a symbolic link. On Windows it skips the test if links do not work: under wine, os.Symlink returns
// no error, but makes no link.
func Symlink(t *testing.T, to, name string) {
	t.Helper()
	err := os.Symlink(to, name)
	if err == nil {
		_, err = os.Lstat(name) //nolint:gosec // a name that the test has chosen
	}
	switch {
	case err != nil && runtime.GOOS == "windows":
		t.Skip("no symbolic links: ", err)
	case err != nil:
		t.Fatal(err)
	}
}
