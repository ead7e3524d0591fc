package format_test

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"github.com/entrace-go/entrace/format"
)

// TestRecoverCorruptAgain recovers a file of one name that is corrupt again and again: each
// time the trace is there, and each of the originals stays.
func TestRecoverCorruptAgain(t *testing.T) {
	for _, name := range []string{"x.iet", "x.et"} {
		dir := t.TempDir()
		var originals [][]byte
		for i := range 3 {
			b := format.AppendTraceEntry(format.AppendMagic(nil, format.V1, format.IET), format.V1, format.Root())
			for range i + 1 {
				b = format.AppendTraceEntry(b, format.V1, named("whole"))
			}
			b = append(b, 0, 9, 9, 9, 9, 255, 255)
			must(t, os.WriteFile(filepath.Join(dir, "x.iet"), b, 0o600))
			r, err := format.Recover(filepath.Join(dir, name), "")
			must(t, err)
			originals = append(originals, b)
			if got := readFile(t, r.Broken); !bytes.Equal(got, b) {
				t.Errorf("%s, round %d: %s is not the original", name, i, r.Broken)
			}
			if r, err := format.Inspect(r.Output); err != nil || r.Entries != i+2 || r.Reason != format.CutClean {
				t.Errorf("%s, round %d: %+v, %v", name, i, r, err)
			}
			must(t, os.Remove(r.Output))
		}
		if n := dirNames(t, dir); len(n) != len(originals) {
			t.Errorf("%s: the folder has %q", name, n)
		}
	}
}
