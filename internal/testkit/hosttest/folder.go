package hosttest

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/entrace-go/entrace/internal/testkit/expect"
)

// Path returns the path of a file in a new [TraceDir].
func Path(t testing.TB, name ...string) string {
	t.Helper()
	return filepath.Join(append([]string{TraceDir(t)}, name...)...)
}

// Names returns the sorted names of the files in a folder.
func Names(t testing.TB, dir string) []string {
	t.Helper()
	list, err := os.ReadDir(dir)
	expect.Must(t, err)
	names := make([]string, len(list))
	for i, e := range list {
		names[i] = e.Name()
	}
	return names
}
