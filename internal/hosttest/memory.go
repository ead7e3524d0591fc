package hosttest

import (
	"os"
	"testing"

	"github.com/entrace-go/entrace/internal/osfile"
)

// MemoryDir is t.TempDir in memory, where the machine has such a folder. It is for tests
// that make and sync thousands of files, and for which the disk is nothing but slow.
func MemoryDir(t testing.TB) string {
	t.Helper()
	const shared = "/dev/shm"
	if !osfile.OnTmpfs(shared) || osfile.FreeBytes(shared) < 128<<20 {
		return t.TempDir()
	}
	dir, err := os.MkdirTemp(shared, "entrace-test-") //nolint:usetesting // it has to be in memory
	if err != nil {
		return t.TempDir()
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	return dir
}
