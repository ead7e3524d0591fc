package hosttest

import (
	"os"
	"testing"

	"github.com/entrace-go/entrace/internal/file/osfile"
	"github.com/entrace-go/entrace/internal/testkit/expect"
)

// MemoryDir is like t.TempDir, but if the machine has /dev/shm, the folder is in memory. It is for tests that make
// and sync thousands of files, and would be slow on a disk without testing more.
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
		expect.OK(t, os.RemoveAll(dir))
	})
	return dir
}
