package deadtrace_test

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/entrace-go/entrace/format"
	"github.com/entrace-go/entrace/internal/core/entrybytes"
	"github.com/entrace-go/entrace/internal/core/wire"
	"github.com/entrace-go/entrace/internal/file/tracename"
	"github.com/entrace-go/entrace/internal/testkit/expect"
	"github.com/entrace-go/entrace/internal/testkit/hosttest"
	"github.com/entrace-go/entrace/internal/testkit/tracetest"
	"github.com/entrace-go/entrace/internal/write/deadtrace"
	"github.com/entrace-go/entrace/recorder"
)

// killed returns the stream of a killed program, in a new folder. The stream has written records, and only
// the journal has waiting more.
func killed(t *testing.T, written, waiting int) (stream string) {
	t.Helper()
	from, dir := t.TempDir(), t.TempDir()
	rec := tracetest.CreateAt(t, filepath.Join(from, "app.et"), &recorder.Options{BufferDir: from})
	defer rec.Close(t.Context())
	log := func(first, n int) {
		for i := range n {
			must(t, rec.Log(format.SpanRef{}, &format.TraceEntry{Message: format.Some(fmt.Sprint("record ", first+i))}))
		}
	}
	log(0, written)
	must(t, rec.Flush(t.Context()))
	log(written, waiting)
	for _, ext := range []string{tracename.IET + tracename.Journal, tracename.IET} {
		b := tracetest.ReadFile(t, filepath.Join(from, "app"+ext))
		if waiting > 0 || ext == tracename.IET {
			must(t, os.WriteFile(filepath.Join(dir, "app"+ext), b, 0o600))
		}
	}
	return filepath.Join(dir, "app"+tracename.IET)
}

// damage overwrites four bytes of a file, at the offset at.
func damage(t *testing.T, name string, at int64) {
	t.Helper()
	f, err := os.OpenFile(name, os.O_RDWR, 0)
	must(t, err)
	_, err = f.WriteAt(bytes.Repeat([]byte{0xff}, 4), at)
	must(t, err)
	must(t, f.Close())
}

// recordsIn returns how often a trace has each record of killed.
func recordsIn(t *testing.T, name string) map[string]int {
	t.Helper()
	f := tracetest.Open(t, name)
	n := make(map[string]int)
	must(t, f.Walk(0, func(_ uint32, e *format.TraceEntry) error {
		if e.Message.Valid {
			n[strings.Clone(e.Message.Value)]++ // the memory of the entry is reused
		}
		return nil
	}))
	return n
}

// TestDamageAtTheBeginningKeepsTheOriginal checks that a stream without a readable entry is not removed as
// an empty one: its original is kept.
func TestDamageAtTheBeginningKeepsTheOriginal(t *testing.T) {
	root := format.AppendTraceEntry(nil, format.V1, format.Root())
	for _, at := range []int64{wire.MagicSize, wire.MagicSize + int64(len(root))} {
		for _, owner := range []deadtrace.Owner{deadtrace.Others, deadtrace.Private} {
			stream := killed(t, 100, 0)
			damage(t, stream, at)
			was := tracetest.ReadFile(t, stream)
			all := deadtrace.Filter{Base: func(string) bool { return true }}
			err := deadtrace.Folder(t.Context(), filepath.Dir(stream), all, &deadtrace.Options{Owner: owner}, func(_ *deadtrace.Result, err error) {
				if err != nil {
					t.Log(err)
				}
			})
			must(t, err)
			now, err := os.ReadFile(stream + tracename.Broken)
			if err != nil || !bytes.Equal(now, was) {
				t.Errorf("damaged at %d: the original is gone: %v", at, err)
			}
		}
	}
}

// TestKillDuringRecoveryOfDamageDoublesNothing damages a stream, and kills recoveries after they have
// written the records of the journal. The next recovery does not write them a second time.
func TestKillDuringRecoveryOfDamageDoublesNothing(t *testing.T) {
	stream := killed(t, 500, 100)
	f, err := format.Open(stream, nil)
	must(t, err)
	at := entrybytes.Of(f).Offset(250)
	must(t, f.Close())
	damage(t, stream, at)
	for range 2 {
		must(t, deadtrace.ReplayAndStop(stream, false))
	}
	r, err := recorder.Recover(filepath.Join(filepath.Dir(stream), "app.et"), "")
	must(t, err)
	n := recordsIn(t, r.Output)
	for i := range 600 {
		if got := n[fmt.Sprint("record ", i)]; got > 1 || got == 0 && (i < 100 || i >= 500) {
			t.Errorf("record %d is there %d times", i, got)
		}
	}
}

// TestStartSparesWhatItSetsAside checks that Create does not remove the trace of the last run to make room,
// although it is larger than KeepBytes.
func TestStartSparesWhatItSetsAside(t *testing.T) {
	name := hosttest.Path(t, "app.iet")
	for range 2 {
		rec := tracetest.CreateAt(t, name, &recorder.Options{KeepBytes: 100})
		for range 100 {
			must(t, rec.Log(format.SpanRef{}, &format.TraceEntry{Message: format.Some("a record")}))
		}
		must(t, rec.Close(t.Context()))
	}
	names, err := deadtrace.Archived(name)
	must(t, err)
	expect.Len(t, names, 1, "of the last run")
}

// TestRecoverKeepsTime: the ET of an old trace has the time of the last change of its IET.
func TestRecoverKeepsTime(t *testing.T) {
	stream, at := killed(t, 3, 2), time.Unix(1e9, 0)
	et := strings.TrimSuffix(stream, tracename.IET) + ".et"
	must(t, os.Chtimes(stream, at, at))
	_, err := deadtrace.Recover(et, "")
	must(t, err)
	fi, err := os.Stat(et)
	must(t, err)
	expect.Equal(t, fi.ModTime().Unix(), at.Unix(), "the time of the ET")
}
