package recorder_test

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/entrace-go/entrace/format"
	"github.com/entrace-go/entrace/internal/core/wire"
	"github.com/entrace-go/entrace/internal/testkit/expect"
	"github.com/entrace-go/entrace/internal/testkit/tracetest"
	"github.com/entrace-go/entrace/recorder"
)

// TestTornRootAndEmptyJournal starts with an IET whose root is incomplete, and a journal without a
// checkpoint, or with another layout. Create and Recover do not panic, and the next trace is complete.
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
				rec := tracetest.CreateAt(t, path, nil)
				must(t, logNamed(rec, "said"))
				tracetest.Close(t, rec)
				f := tracetest.Open(t, path)
				expect.Equal(t, f.Len(), 3, "%d bytes: entries of the next trace", torn)
			}
		}
	}
}
