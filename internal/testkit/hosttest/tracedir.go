package hosttest

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"
)

// TraceDir is like t.TempDir, but at the end of the test it also removes the journals that traces in the folder have in
// shared memory. A test that kills a program, or removes the folder of an open trace, leaves such a journal, at which
// each recording of the next hour would look.
func TraceDir(t testing.TB) string {
	t.Helper()
	dir := t.TempDir()
	t.Cleanup(func() {
		journals, _ := filepath.Glob("/dev/shm/entrace-*/*.buffer")
		for _, name := range journals {
			// The head of a journal names the trace.
			head := make([]byte, 8<<10)
			f, err := os.Open(name)
			if err != nil {
				continue // another test has removed it
			}
			n, _ := f.Read(head)
			_ = f.Close()
			if bytes.Contains(head[:n], []byte(dir+string(filepath.Separator))) {
				_ = os.Remove(name)
			}
		}
	})
	return dir
}
