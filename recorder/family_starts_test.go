package recorder_test

import (
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/entrace-go/entrace/format"
	"github.com/entrace-go/entrace/internal/core/mapping"
	"github.com/entrace-go/entrace/internal/testkit/expect"
	"github.com/entrace-go/entrace/internal/testkit/tracetest"
	"github.com/entrace-go/entrace/recorder"
)

// TestTwoStartsFinishTheDeadOnce starts several recoveries of one folder at the same time. One of them
// finishes the trace of a dead process, and no earlier trace with the same name is lost.
func TestTwoStartsFinishTheDeadOnce(t *testing.T) {
	from := t.TempDir()
	rec, err := recorder.Create(filepath.Join(from, "app.et"), &recorder.Options{BufferDir: from})
	must(t, err)
	if d, err := rec.Durability(); d != recorder.DurabilityProcess {
		t.Skip("no journal here:", err)
	}
	must(t, rec.Log(format.SpanRef{}, &format.TraceEntry{Message: format.Some("the last words")}))
	left := make(map[string][]byte)
	// The buffer first: a later one might say that its records are in the file.
	for _, ext := range []string{".iet.buffer", ".iet"} {
		left[ext] = readFile(t, filepath.Join(from, "app"+ext))
	}
	must(t, rec.Close(t.Context()))
	earlier := tracetest.New(t, format.V1, format.IET, format.Root()).Bytes()
	for range 10 {
		dir := t.TempDir()
		for ext, b := range left {
			must(t, os.WriteFile(filepath.Join(dir, "app"+ext), b, 0o600))
		}
		must(t, os.WriteFile(filepath.Join(dir, "app.et"), earlier, 0o600))
		var starts sync.WaitGroup
		for range 3 {
			starts.Go(func() {
				err := recorder.RecoverFolder(t.Context(), dir, func(_ *recorder.Report, err error) {
					expect.OK(t, err)
				})
				expect.OK(t, err)
			})
		}
		starts.Wait()
		// Each of two recoveries may have left the file to the other. The next recovery finishes it.
		must(t, recorder.RecoverFolder(t.Context(), dir, func(_ *recorder.Report, err error) { must(t, err) }))
		var got []string
		for _, name := range dirNames(t, dir) {
			f, err := recorder.Open(filepath.Join(dir, name), nil)
			must(t, err)
			last, err := f.Entry(uint32(f.Len() - 1))
			must(t, err)
			if last.Metadata.Name == mapping.NameRecovered {
				last, err = f.Entry(uint32(f.Len() - 2))
				must(t, err)
			}
			base, _, _ := strings.Cut(name, ".")
			got = append(got, base+filepath.Ext(name)+": "+last.Message.Value)
			must(t, f.Close())
		}
		if len(got) != 2 || got[0] != "app.et: " || got[1] != "app.et: the last words" {
			t.Fatalf("there is %q, want the earlier trace and what was finished", got)
		}
	}
}
