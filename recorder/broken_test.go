package recorder_test

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/entrace-go/entrace/format"
	"github.com/entrace-go/entrace/internal/mapping"
	"github.com/entrace-go/entrace/internal/tracetest"
	"github.com/entrace-go/entrace/internal/wire"
	"github.com/entrace-go/entrace/recorder"
)

// TestRecoverCorruptAgain recovers a file of one name that is corrupt again and again: each
// time the trace is there, with the mark of recovery, and each of the originals stays.
func TestRecoverCorruptAgain(t *testing.T) {
	for _, name := range []string{"x.iet", "x.et"} {
		dir := t.TempDir()
		var originals [][]byte
		for i := range 3 {
			b := format.AppendTraceEntry(wire.AppendMagic(nil, format.V1, format.IET), format.V1, format.Root())
			for range i + 1 {
				b = format.AppendTraceEntry(b, format.V1, named("whole"))
			}
			b = append(b, 0, 9, 9, 9, 9, 255, 255)
			must(t, os.WriteFile(filepath.Join(dir, "x.iet"), b, 0o600))
			r, err := recorder.Recover(filepath.Join(dir, name), "")
			must(t, err)
			originals = append(originals, b)
			if got := readFile(t, r.Broken); !bytes.Equal(got, b) {
				t.Errorf("%s, round %d: %s is not the original", name, i, r.Broken)
			}
			if r, err := recorder.Inspect(r.Output); err != nil || r.Entries != i+3 || r.Reason != mapping.CutClean {
				t.Errorf("%s, round %d: %+v, %v", name, i, r, err)
			}
			must(t, os.Remove(r.Output))
		}
		if n := dirNames(t, dir); len(n) != len(originals) {
			t.Errorf("%s: the folder has %q", name, n)
		}
	}
}

// TestTornRootAndEmptyJournal has an IET of which not even the root is whole, beside a
// journal without a checkpoint, of this layout or another one: nothing panics.
func TestTornRootAndEmptyJournal(t *testing.T) {
	for _, torn := range []int{0, 5, 11, 15} {
		for _, journal := range [][]byte{{}, make([]byte, 200_000), append([]byte("ENTRACEB\x01\x00\x00\x00\x00\x00\x01\x00"), make([]byte, 100_000)...)} {
			for _, recover := range []bool{false, true} {
				dir := t.TempDir()
				path := filepath.Join(dir, "app.et")
				whole := format.AppendTraceEntry(wire.AppendMagic(nil, format.V1, format.IET), format.V1, format.Root())
				must(t, os.WriteFile(filepath.Join(dir, "app.iet"), whole[:torn], 0o600))
				must(t, os.WriteFile(filepath.Join(dir, "app.iet.buffer"), journal, 0o600))
				if recover {
					if _, err := recorder.Recover(path, ""); err != nil && !errors.Is(err, format.ErrTruncated) {
						t.Errorf("%d bytes, a journal of %d: %v", torn, len(journal), err)
					}
				}
				rec, err := recorder.Create(path, nil)
				must(t, err)
				must(t, rec.Log(format.SpanRef{}, named("said")))
				tracetest.Close(t, rec)
				f := tracetest.Open(t, path)
				if f.Len() != 3 {
					t.Errorf("%d bytes: the next trace has %d entries", torn, f.Len())
				}
			}
		}
	}
}
