package deadtrace_test

import (
	"context"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/entrace-go/entrace/format"
	"github.com/entrace-go/entrace/internal/core/mapping"
	"github.com/entrace-go/entrace/internal/file/osfile"
	"github.com/entrace-go/entrace/internal/testkit/expect"
	"github.com/entrace-go/entrace/internal/testkit/hosttest"
	"github.com/entrace-go/entrace/internal/testkit/tracetest"
	"github.com/entrace-go/entrace/internal/write/deadtrace"
	"github.com/entrace-go/entrace/recorder"
)

const reason = "panic: the reason\n\ngoroutine 1 [running]:"

// panicked returns the IET of a program that has ended with a panic. If journal is set, its record is only
// in the journal, else the journal is gone.
func panicked(t *testing.T, journal bool) (stream string) {
	t.Helper()
	return panickedAfter(t, journal, 1)
}

func panickedAfter(t *testing.T, journal bool, records int) (stream string) {
	t.Helper()
	from, dir := t.TempDir(), t.TempDir()
	rec := tracetest.CreateAt(t, filepath.Join(from, "app.et"), &recorder.Options{BufferDir: from})
	defer rec.Close(t.Context())
	for range records {
		must(t, rec.Log(format.SpanRef{}, &format.TraceEntry{Message: format.Some("a record")}))
	}
	if !journal {
		must(t, rec.Flush(t.Context()))
	}
	for _, ext := range []string{".iet.buffer", ".iet"} {
		b := tracetest.ReadFile(t, filepath.Join(from, "app"+ext))
		if ext == ".iet" || journal {
			must(t, os.WriteFile(filepath.Join(dir, "app"+ext), b, 0o600))
		}
	}
	stream = filepath.Join(dir, "app.iet")
	must(t, os.WriteFile(stream+".crash", []byte(reason+"\n"), 0o600))
	return stream
}

// wantReason checks that the trace name has the text of the panic once.
func wantReason(t *testing.T, when, name string) {
	t.Helper()
	f := tracetest.Open(t, name)
	n := 0
	for id := range uint32(f.Len()) {
		e, err := f.Entry(id)
		must(t, err)
		if e.Metadata.Name == mapping.NameCrash && e.Message.Value == reason {
			n++
		}
	}
	expect.Equal(t, n, 1, "%s: times that the text is there", when)
}

// TestReasonOnce kills a recovery at its last steps. The trace has the text of the panic once, before and
// after the next recovery.
func TestReasonOnce(t *testing.T) {
	for _, journal := range []bool{true, false} {
		for _, killed := range []string{"before it", "behind what it writes", "before the text goes"} {
			stream := panicked(t, journal)
			wantReason(t, "before recovery", stream)
			if killed != "before it" {
				must(t, deadtrace.ReplayAndStop(stream, killed == "before the text goes"))
			}
			wantReason(t, "killed "+killed, stream)
			r, err := recorder.Recover(filepath.Join(filepath.Dir(stream), "app.et"), "")
			must(t, err)
			wantReason(t, "after recovery", r.Output)
			if osfile.Exists(stream + ".crash") {
				t.Error("the text is there still")
			}
		}
	}
}

// TestReasonOfCopy checks the time of the crash. The modification time of the text counts, even if it is an
// hour after the last record. The exception are copies: if the stream was modified at the same time as the
// text, the time of the last record counts. Without a record, only the modification time is known.
func TestReasonOfCopy(t *testing.T) {
	for _, c := range []struct {
		records       int
		written, died time.Duration
		copied        bool
	}{{1, time.Hour, time.Hour, true}, {1, 0, time.Hour, false}, {1, 2 * time.Hour, time.Hour, false}, {0, time.Hour, time.Hour, false}} {
		stream, now := panickedAfter(t, true, c.records), time.Now()
		later, copied := now.Add(c.died), c.copied
		must(t, os.Chtimes(stream+".crash", later, later))
		must(t, os.Chtimes(stream, now.Add(c.written), now.Add(c.written)))
		f, err := recorder.Open(stream, nil)
		must(t, err)
		for id := range uint32(f.Len()) {
			e, err := f.Entry(id)
			must(t, err)
			at, _ := e.Attribute(format.AttrTime)
			if e.Metadata.Name == mapping.NameCrash {
				n, _ := at.U64()
				if late := time.Unix(0, int64(n)).After(later.Add(-time.Minute)); late == copied {
					t.Errorf("%+v: the crash is %v behind its start", c, time.Until(time.Unix(0, int64(n))))
				}
			}
		}
		must(t, f.Close())
	}
}

// TestReasonWithoutJournal checks that the trace gets the text of a panic even if the journal was in memory
// that is gone.
func TestReasonWithoutJournal(t *testing.T) {
	stream := panicked(t, false)
	host, err := os.Hostname()
	must(t, err)
	must(t, os.WriteFile(stream+".buffer", []byte("entrace journal\npath /dev/shm/entrace-0/AAAAAAAAAAAAAAAAAAAAAAAAAA.buffer\ndevice 26\nboot another\nhost "+host+"\nuid 0\n"), 0o600))
	wantReason(t, "before recovery", stream)
	r, err := recorder.Recover(filepath.Join(filepath.Dir(stream), "app.et"), "")
	must(t, err)
	wantReason(t, "after recovery", r.Output)
}

// TestEndsCleanly compares EndsCleanly, which reads the last bytes, with Inspect, which reads the whole
// file.
func TestEndsCleanly(t *testing.T) {
	for _, v := range tracetest.BothVersions {
		name := hosttest.Path(t, "app.iet")
		rec := tracetest.CreateAt(t, name, &recorder.Options{Version: v})
		for range 300 {
			must(t, rec.Log(format.SpanRef{}, &format.TraceEntry{Message: format.Some("of entrace.end"), Metadata: format.Metadata{Name: mapping.NameEnd}}))
		}
		must(t, rec.Close(t.Context()))
		if !deadtrace.EndsCleanly(name) {
			t.Errorf("v%d: a clean end is not seen", v)
		}
		b := tracetest.ReadFile(t, name)
		for cut := 1; cut < 600; cut += 7 {
			must(t, os.WriteFile(name, b[:len(b)-cut], 0o600))
			r, err := recorder.Inspect(name)
			must(t, err)
			expect.Equal(t, deadtrace.EndsCleanly(name), r.Ended && r.Reason == mapping.CutClean, "v%d: %d bytes before the end", v, cut)
		}
	}
}

// TestFolderLeavesRotation checks that RecoverFolder does not touch a living process that has no IET while
// it rotates.
func TestFolderLeavesRotation(t *testing.T) {
	dir := t.TempDir()
	rec := tracetest.CreateAt(t, filepath.Join(dir, "app.et"), &recorder.Options{BufferDir: dir})
	aside := rec.StreamPath() + ".aside"
	must(t, os.Rename(rec.StreamPath(), aside))
	must(t, recorder.RecoverFolder(context.Background(), dir, func(r *recorder.Report, err error) { t.Errorf("it did %+v, %v", r, err) }))
	if osfile.Exists(rec.StreamPath()) {
		t.Error("it has taken the name")
	}
	must(t, os.Rename(aside, rec.StreamPath()))
	must(t, rec.Close(t.Context()))
}

var must = expect.Must
