package convert_test

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/entrace-go/entrace/convert"
	"github.com/entrace-go/entrace/format"
	"github.com/entrace-go/entrace/internal/core/mapping"
	"github.com/entrace-go/entrace/internal/core/wire"
	"github.com/entrace-go/entrace/internal/testkit/expect"
	"github.com/entrace-go/entrace/internal/testkit/hosttest"
	"github.com/entrace-go/entrace/internal/testkit/tracetest"
	"github.com/entrace-go/entrace/internal/write/deadtrace"
	"github.com/entrace-go/entrace/internal/write/inside"
	"github.com/entrace-go/entrace/recorder"
)

// said records a log record and waits until it is in the file.
func said(t *testing.T, rec *recorder.Recorder, text string) {
	t.Helper()
	must(t, rec.Log(format.SpanRef{}, tracetest.Log(text, format.AttrTime, uint64(1e18))))
	must(t, rec.Flush(t.Context()))
}

// stateIn returns the state of a file of tr.
func stateIn(tr *convert.Trace, file int) convert.State { return tr.State(tr.View(), file) }

// TestStateOfFile checks the state of a file from its first entry until after its recovery.
func TestStateOfFile(t *testing.T) {
	dir := t.TempDir()
	in := func(name string) string { return filepath.Join(dir, name) }
	state := func(name string) convert.State {
		t.Helper()
		return stateIn(opened(t, nil, in(name)), 0)
	}
	copyOf := func(name, to string, cut int64) {
		t.Helper()
		b := read(t, in(name))
		must(t, os.WriteFile(in(to), b[:int64(len(b))-cut], 0o600))
	}

	rec := tracetest.CreateAt(t, in("app.et"), nil)
	said(t, rec, "one")
	running := opened(t, nil, in("app.et"))
	if got := stateIn(running, 0); got.Word != deadtrace.Running || !strings.HasPrefix(got.String(), "running") {
		t.Errorf("while it is written the state is %q", got)
	}
	copyOf("app.iet", "killed.iet", 0)
	must(t, rec.Close(t.Context()))
	expect.Equal(t, stateIn(running, 0).String(), "ended", "a file that was closed since it was opened")
	_, err := recorder.Recover(in("killed.iet"), in("recovered.et"))
	must(t, err)
	copyOf("app.et", "half.et", 20)
	_, err = recorder.Recover(in("half.et"), in("mended.et"))
	must(t, err)
	copyOf("killed.iet", "torn.iet", 30)
	corrupt := read(t, in("killed.iet"))
	corrupt = append(corrupt, bytes.Repeat([]byte{0xff}, 100)...)
	must(t, os.Mkdir(in("journal"), 0o700))
	for name, output := range map[string]string{"corrupt": "", "other.iet": in("saved.et"), "corrupt-et": "", "journal/corrupt": ""} {
		stream := in(name)
		if filepath.Ext(name) == "" {
			stream += ".iet"
		}
		must(t, os.WriteFile(stream, corrupt, 0o600))
		if strings.HasPrefix(name, "journal") {
			must(t, os.WriteFile(stream+".crash", []byte("panic: no stock\n"), 0o600))
		}
		if strings.HasSuffix(name, "-et") {
			stream = in(name) + ".et"
		}
		_, err = recorder.Recover(stream, output)
		must(t, err)
	}

	rec, err = recorder.Create(in("long.et"), &recorder.Options{MaxFileEntries: 10})
	must(t, err)
	for range 20 {
		said(t, rec, "one")
	}
	if err := rec.Log(format.SpanRef{}, &format.TraceEntry{Metadata: format.Metadata{Name: "event", Level: 200}}); err == nil {
		t.Error("an entry of no level is taken")
	}
	must(t, rec.Close(context.Background()))
	parts, err := filepath.Glob(in("long.2*.et"))
	must(t, err)
	must(t, os.Rename(parts[0], in("rotated.et")))

	// A file of another program is complete, even if it has no entry about its end.
	must(t, opened(t, nil, in("killed.iet")).EncodeFile(t.Context(), in("x.jsonl"), "otlp", nil))
	other := service(t, format.V1, "shop", []part{{name: "call", span: 1, at: 10, below: -1}, {name: "said", span: 1, at: 11, log: true, below: 0}})
	must(t, encodeFile(t.Context(), other.Name(), in("y.jsonl"), "otlp", nil))
	must(t, encodeFile(t.Context(), in("y.jsonl"), in("y.et"), convert.ET, nil))

	for _, x := range []struct{ name, want string }{
		{"app.et", "ended"},
		{"killed.iet", "killed"},
		{"recovered.et", "killed, recovered"},
		{"half.et", "damaged"},
		{"mended.et", "damaged, recovered"},
		{"torn.iet", "damaged"},
		{"corrupt.iet", "damaged, recovered"},
		{"corrupt-et.et", "damaged, recovered"},
		{"saved.et", "damaged, recovered"},
		{"journal/corrupt.iet", "damaged, recovered (panic: no stock)"},
		{"rotated.et", "ended, another file follows"},
		{"long.et", "ended, 1 entry dropped"},
		{"x.jsonl", "ended"},
		{"y.jsonl", "ended"},
		{"y.et", "ended"},
	} {
		expect.Equal(t, state(x.name).String(), x.want, "the state of %s", x.name)
		for _, whole := range []bool{false, x.want != "damaged"} {
			if got, _ := convert.StateOf(t.Context(), in(x.name), whole); got.String() != x.want {
				t.Errorf("StateOf(%s, %t) is %q, want %q", x.name, whole, got, x.want)
			}
		}
	}
	t.Run("of each file of several", func(t *testing.T) {
		tr := opened(t, nil, in("killed.iet"), in("app.et"), in("recovered.et"))
		for i, want := range []string{"killed", "ended", "killed, recovered"} {
			expect.Equal(t, stateIn(tr, i).String(), want, "of file %d", i)
		}
	})
}

// TestStateSaysWhySnapshotExists checks that the state of a flight recorder's file has its trigger and reason.
func TestStateSaysWhySnapshotExists(t *testing.T) {
	for _, x := range []struct{ trigger, mode, want string }{
		{"watchdog", "snapshot", "snapshot of a running process (watchdog: GET hangs)"},
		{"http", "stream", "ended (http: GET hangs)"},
		{"crash", "", "killed, recovered (crash: GET hangs)"},
	} {
		rec := tracetest.CreateAt(t, hosttest.Path(t, "a.et"), nil)
		e := &format.TraceEntry{Metadata: format.Metadata{Name: mapping.NameTrace, Level: format.LevelInfo}}
		for _, a := range [][2]string{{"trigger", x.trigger}, {"reason", "GET hangs"}, {"mode", x.mode}} {
			e.Add(a[0], format.StringValue(a[1]))
		}
		_, err := inside.Of(rec).AppendAnchor(e)
		must(t, err)
		must(t, rec.Close(t.Context()))
		expect.Equal(t, stateIn(opened(t, nil, rec.Path()), 0).String(), x.want, "of trigger %s", x.trigger)
		if got, _ := convert.StateOf(t.Context(), rec.Path(), true); got.String() != x.want {
			t.Errorf("of trigger %s StateOf has %q, want %q", x.trigger, got, x.want)
		}
	}
}

// TestStateOfRecoveredBatch recovers a recording whose spans had ended when they were recorded, as in the output of
// a converter.
func TestStateOfRecoveredBatch(t *testing.T) {
	dir, dead := t.TempDir(), t.TempDir()
	rec := tracetest.CreateAt(t, filepath.Join(dir, "app.et"), &recorder.Options{BufferDir: dir})
	_, err := rec.Append(&format.TraceEntry{
		Metadata: format.Metadata{Name: "GET", Level: format.LevelInfo},
		Attributes: tracetest.Attributes(
			format.AttrTraceID, "4bf92f3577b34da6a3ce929d0e0e4736",
			format.AttrSpanID, "00f067aa0ba902b7",
			format.AttrTime, uint64(1e18),
			format.AttrDuration, uint64(1e9),
		),
	})
	must(t, err)
	must(t, rec.Flush(t.Context()))
	for _, name := range []string{"app.iet", "app.iet.buffer"} { // a copy of the files that a kill would leave now
		b := read(t, filepath.Join(dir, name))
		must(t, os.WriteFile(filepath.Join(dead, name), b, 0o600))
	}
	must(t, rec.Close(t.Context()))
	name := filepath.Join(dead, "app.et")
	expect.Equal(t, stateIn(opened(t, nil, filepath.Join(dead, "app.iet")), 0).String(), "killed", "before recovery the state")
	for range 2 { // the second call has nothing to do
		r, err := recorder.Recover(name, "")
		must(t, err)
		if r.Entries != 3 {
			t.Errorf("recovery makes a file of %d entries, want root, span and the end", r.Entries)
		}
	}
	expect.Equal(t, stateIn(opened(t, nil, name), 0).String(), "killed, recovered", "after recovery the state")
}

// TestStateSaysWhyProgramDied checks that the state of a file whose program panicked has the panic, before and
// after recovery. A crash entry alone must not make a file count as killed.
func TestStateSaysWhyProgramDied(t *testing.T) {
	dir := t.TempDir()
	in := func(name string) string { return filepath.Join(dir, name) }
	rec := tracetest.CreateAt(t, in("app.et"), nil)
	said(t, rec, "one")
	b := read(t, in("app.iet"))
	must(t, rec.Close(t.Context()))
	must(t, os.WriteFile(in("dead.iet"), b, 0o600))
	must(t, os.WriteFile(in("dead.iet.crash"), []byte("panic: out of stock\n\ngoroutine 7 [running]:\n"), 0o600))
	check := func(name, want string) {
		t.Helper()
		expect.Equal(t, stateIn(opened(t, nil, in(name)), 0).String(), want, "the state of %s", name)
	}
	check("dead.iet", "killed (panic: out of stock)")
	_, err := recorder.Recover(in("dead.et"), "")
	must(t, err)
	check("dead.et", "killed, recovered (panic: out of stock)")

	other := format.AppendTraceEntry(wire.AppendMagic(nil, format.V1, format.IET), format.V1, format.Root())
	other = format.AppendTraceEntry(other, format.V1, tracetest.Log("said"))
	other = format.AppendTraceEntry(other, format.V1, &format.TraceEntry{Message: format.Some("into a wall"), Metadata: format.Metadata{Name: mapping.NameCrash}})
	must(t, os.WriteFile(in("other.iet"), other, 0o600))
	check("other.iet", "ended")
}

// TestStateOfGrowingFileIsCheap checks that a row is read only once for the state, even if many rows are below the
// root.
func TestStateOfGrowingFileIsCheap(t *testing.T) {
	name := hosttest.Path(t, "app.iet")
	b := format.AppendTraceEntry(wire.AppendMagic(nil, format.V1, format.IET), format.V1, format.Root())
	entry := format.AppendTraceEntry(nil, format.V1, tracetest.Log("said"))
	for range 50_000 {
		b = append(b, entry...)
	}
	must(t, os.WriteFile(name, b, 0o600))
	tr := opened(t, nil, name)
	stateIn(tr, 0)
	file, err := os.OpenFile(name, os.O_APPEND|os.O_WRONLY, 0)
	must(t, err)
	defer file.Close()
	_, err = file.Write(entry)
	must(t, err)
	v, err := tr.View().Extend(t.Context())
	must(t, err)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	got := tr.State(v, 0).Word
	runtime.ReadMemStats(&after)
	expect.Equal(t, got, deadtrace.Ended, "the state")
	if got := after.TotalAlloc - before.TotalAlloc; got > 100_000 {
		t.Errorf("the state of a view of %d rows, of which one is new, takes %d bytes", v.Len(), got)
	}
	end := format.AppendTraceEntry(nil, format.V1, tracetest.Entry(mapping.NameEnd, "dropped", uint64(7),
		"dropped.from", "2026-01-02T23:59:58.5Z", "dropped.to", "2026-01-03T00:00:01Z"))
	_, err = file.Write(end)
	must(t, err)
	v, err = v.Extend(t.Context())
	must(t, err)
	expect.Equal(t, tr.State(v, 0).String(), "ended, 7 entries dropped from 2026-01-02T23:59:58Z to 2026-01-03T00:00:01Z", "the state of the ended file")
}

// TestStateOfClosedFileNeedsNoView checks that the state of a large closed file needs little memory, because the
// last entry has it.
func TestStateOfClosedFileNeedsNoView(t *testing.T) {
	name := hosttest.Path(t, "app.iet")
	b := format.AppendTraceEntry(wire.AppendMagic(nil, format.V1, format.IET), format.V1, format.Root())
	b = format.AppendTraceEntry(b, format.V1, tracetest.Resource("shop"))
	entry := format.AppendTraceEntry(nil, format.V1, tracetest.Below(1, tracetest.Log("said")))
	for range 50_000 {
		b = append(b, entry...)
	}
	b = format.AppendTraceEntry(b, format.V1, tracetest.Entry(mapping.NameEnd))
	must(t, os.WriteFile(name, b, 0o600))
	took := func(whole bool) uint64 {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		got, _ := convert.StateOf(t.Context(), name, whole)
		runtime.ReadMemStats(&after)
		if want := deadtrace.Ended; got.Word != want {
			t.Errorf("the state is %q, want %q", got, want)
		}
		return after.TotalAlloc - before.TotalAlloc
	}
	if whole, view := took(true), took(false); whole > view/4 {
		t.Errorf("it takes %d bytes, and a view %d", whole, view)
	}
}
