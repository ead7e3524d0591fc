package hosttest

import (
	"os"
	"testing"

	"github.com/entrace-go/entrace/internal/testkit/expect"
)

// Names returns the sorted names of what is in a folder.
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
