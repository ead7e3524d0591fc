package deadtrace_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/entrace-go/entrace/format"
	"github.com/entrace-go/entrace/internal/testkit/expect"
	"github.com/entrace-go/entrace/internal/testkit/tracetest"
	"github.com/entrace-go/entrace/recorder"
)

// bytesRead returns how many bytes this process has read by system calls.
func bytesRead(t *testing.T) (n int64) {
	t.Helper()
	b := tracetest.ReadFile(t, "/proc/self/io")
	must(t, expect.Err(fmt.Sscanf(string(b), "rchar: %d", &n)))
	return n
}

// TestFinishReadsTwice checks that recovery reads a stream twice, for the survey and for the ET, and the
// journal once.
func TestFinishReadsTwice(t *testing.T) {
	from, dir := t.TempDir(), t.TempDir()
	rec := tracetest.CreateAt(t, filepath.Join(from, "app.et"), &recorder.Options{BufferDir: from})
	defer rec.Close(t.Context())
	log := func(n int) {
		for range n {
			must(t, rec.Log(format.SpanRef{}, &format.TraceEntry{Message: format.Some(strings.Repeat("x", 500))}))
		}
	}
	log(20_000)
	must(t, rec.Flush(t.Context()))
	sizes := make(map[string]int64)
	log(100)
	// The journal first: a later one might say that its records are in the stream.
	for _, ext := range []string{".iet.buffer", ".iet"} {
		b := tracetest.ReadFile(t, filepath.Join(from, "app"+ext))
		sizes[ext] = int64(len(b))
		must(t, os.WriteFile(filepath.Join(dir, "app"+ext), b, 0o600))
	}
	was := bytesRead(t)
	r, err := recorder.Recover(filepath.Join(dir, "app.et"), "")
	must(t, err)
	const some = 64 << 10
	if got, most := bytesRead(t)-was, 2*sizes[".iet"]+some+sizes[".iet.buffer"]+some; got > most || r.Entries < 20_100 {
		t.Errorf("%d entries were read in %d bytes, want at most %d; the stream has %d and the journal %d", r.Entries, got, most, sizes[".iet"], sizes[".iet.buffer"])
	}
}
