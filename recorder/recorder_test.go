package recorder_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/entrace-go/entrace/format"
	"github.com/entrace-go/entrace/internal/core/entrybytes"
	"github.com/entrace-go/entrace/internal/core/mapping"
	"github.com/entrace-go/entrace/internal/core/wire"
	"github.com/entrace-go/entrace/internal/testkit/expect"
	"github.com/entrace-go/entrace/internal/testkit/hosttest"
	"github.com/entrace-go/entrace/internal/testkit/tracetest"
	"github.com/entrace-go/entrace/internal/write/inside"
	"github.com/entrace-go/entrace/recorder"
	"github.com/entrace-go/entrace/view"
)

var must = expect.Must

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// rowOf returns the row of an entry in the only file of v.
func rowOf(t testing.TB, v *view.View, id uint32) view.Row {
	t.Helper()
	r, ok := v.Row(0, id)
	if !ok {
		t.Fatalf("entry %d has no row", id)
	}
	return r
}

func spanRef(trace, span byte) format.SpanRef {
	return format.SpanRef{TraceID: [16]byte{15: trace}, SpanID: [8]byte{7: span}}
}

// span returns a span of trace 1 with its usual attributes.
func span(name string, id, parent byte) *tracetest.Span {
	s := &tracetest.Span{Span: recorder.Span{Ref: spanRef(1, id), Wait: true}}
	if parent != 0 {
		s.Parent = spanRef(1, parent)
	}
	s.Entry.Metadata = format.Metadata{Name: name, Level: format.LevelInfo}
	s.Entry.Attributes = tracetest.Attributes(
		format.AttrSpanID, fmt.Sprintf("%016x", id),
		format.AttrTime, uint64(id),
	)
	return s
}

func named(name string) *format.TraceEntry {
	return tracetest.Entry(name)
}

// logNamed records a log record.
func logNamed(rec *recorder.Recorder, name string) error {
	return rec.Log(format.SpanRef{}, named(name))
}

// writeNamed records a log record and writes it to the file.
func writeNamed(t testing.TB, rec *recorder.Recorder, name string) {
	t.Helper()
	must(t, logNamed(rec, name))
	must(t, rec.Flush(t.Context()))
}

var readFile = tracetest.ReadFile

var eventually = tracetest.Eventually

// TestAppendIsInFile reads an entry from the file right after the call that recorded it.
func TestAppendIsInFile(t *testing.T) {
	for _, v := range []format.Version{format.V1, format.V2} {
		rec := tracetest.Create(t, "a.et", &recorder.Options{Version: v})
		for i := range 100 {
			name := fmt.Sprint("entry ", i)
			id, err := rec.Append(named(name))
			must(t, err)
			f, err := recorder.Open(rec.StreamPath(), nil)
			must(t, err)
			e, err := f.Entry(id)
			must(t, err)
			if e.Metadata.Name != name || f.Len() != i+2 {
				t.Errorf("entry %d is %q of %d, want %q of %d", id, e.Metadata.Name, f.Len(), name, i+2)
			}
			must(t, f.Close())
		}
	}
}

func TestCloseFinishesAsET(t *testing.T) {
	rec := tracetest.Create(t, "app.et", nil)
	id, err := rec.Append(named("a"))
	must(t, err)
	_, err = rec.Append(tracetest.Below(id, tracetest.Entry("b")))
	must(t, err)
	stream := readFile(t, rec.StreamPath())
	tracetest.Close(t, rec)
	if _, err := os.Stat(rec.StreamPath()); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the IET is still there: %v", err)
	}
	f := tracetest.Open(t, rec.Path())
	expect.Equal(t, tracetest.Outline(t, f), "root(a(b) entrace.end)", "the tree")
	expect.Equal(t, f.Format(), format.ET, "the format")
	if !bytes.Contains(readFile(t, rec.Path()), stream[wire.MagicSize:]) {
		t.Error("the data section is not what the IET held")
	}
	fi, err := os.Stat(rec.Path())
	must(t, err)
	if runtime.GOOS != "windows" && fi.Mode().Perm() != 0o600 {
		t.Errorf("the file's mode is %v, want 0600", fi.Mode())
	}
	expect.Is(t, expect.Err(rec.Append(named("late"))), recorder.ErrClosed, "Append after Close")
	expect.Is(t, rec.Sync(context.Background()), recorder.ErrClosed, "Sync after Close")
	tracetest.Close(t, rec)
}

func TestCloseKeepsIET(t *testing.T) {
	rec := tracetest.Create(t, "app.iet", nil)
	tracetest.Close(t, rec)
	f := tracetest.Open(t, rec.Path())
	if f.Format() != format.IET || filepath.Ext(rec.Path()) != ".iet" {
		t.Errorf("%s has format %v, want iet", rec.Path(), f.Format())
	}
}

func TestFormatBeatsName(t *testing.T) {
	dir := t.TempDir()
	for _, x := range []struct {
		name         string
		f            format.StorageFormat
		path, stream string
	}{
		{"a.et", format.IET, "a.iet", "a.iet"},
		{"b.iet", format.ET, "b.et", "b.iet"},
		{"c", format.ET, "c", "c.iet"},
		{"d.trace", format.IET, "d.trace.iet", "d.trace.iet"},
	} {
		rec := tracetest.CreateAt(t, filepath.Join(dir, x.name), &recorder.Options{Format: format.Some(x.f)})
		expect.Equal(t, filepath.Base(rec.Path()), x.path, "%s as %v: Path", x.name, x.f)
		expect.Equal(t, filepath.Base(rec.StreamPath()), x.stream, "%s as %v: StreamPath", x.name, x.f)
		tracetest.Close(t, rec)
		if f := tracetest.Open(t, rec.Path()); f.Format() != x.f {
			t.Errorf("%s has format %v, want %v", rec.Path(), f.Format(), x.f)
		}
	}
}

// TestDeadContext calls Close with a context that has ended. Close leaves a whole IET, and the next Create
// finishes it.
func TestDeadContext(t *testing.T) {
	rec := tracetest.Create(t, "app.et", nil)
	_, err := rec.Append(named("a"))
	must(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	expect.Is(t, rec.Close(ctx), context.Canceled, "Close")
	f := tracetest.Open(t, rec.StreamPath())
	if got, want := tracetest.Outline(t, f), "root(a entrace.end)"; got != want || f.Damage() != nil {
		t.Errorf("the IET has %s, %v, want %s", got, f.Damage(), want)
	}
	again := tracetest.CreateAt(t, rec.Path(), nil)
	tracetest.Close(t, again)
	must(t, f.Close()) // on Windows, Create cannot rename the IET before
	names := dirNames(t, filepath.Dir(rec.Path()))
	if len(names) != 2 || !strings.HasPrefix(names[0], "app.2") || names[1] != "app.et" {
		t.Fatalf("the folder has %q, want app.TIME.et and app.et", names)
	}
	expect.Equal(t, tracetest.Outline(t, tracetest.Open(t, filepath.Join(filepath.Dir(rec.Path()), names[0]))), "root(a entrace.end)", "the first trace has")
}

var dirNames = hosttest.Names

// TestCloseAfterDeadContext calls Close again after a call whose context was done. The second call makes the ET, and
// the third one leaves it as it is.
func TestCloseAfterDeadContext(t *testing.T) {
	rec := tracetest.Create(t, "app.et", nil)
	_, err := rec.Append(named("a"))
	must(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for i, want := range []error{context.Canceled, context.Canceled, nil, nil} {
		if i == 2 {
			ctx = t.Context()
		}
		expect.Is(t, rec.Close(ctx), want, "call %d of Close", i)
	}
	if names := dirNames(t, filepath.Dir(rec.Path())); len(names) != 1 || names[0] != "app.et" {
		t.Errorf("the folder has %q, want app.et", names)
	}
	expect.Equal(t, tracetest.Outline(t, tracetest.Open(t, rec.Path())), "root(a entrace.end)", "the trace has")
}

// TestParentsFirst exports a trace in every order of its spans.
func TestParentsFirst(t *testing.T) {
	t.Parallel()
	spans := []*tracetest.Span{span("a", 1, 0), span("b", 2, 1), span("c", 3, 2), span("d", 4, 1), span("e", 5, 4)}
	spans[2].Children = []format.TraceEntry{*named("link"), *named("event")}
	permute(len(spans), func(order []int) {
		rec := tracetest.Create(t, "app.et", nil)
		for _, i := range order {
			must(t, tracetest.WriteSpan(rec, spans[i]))
		}
		tracetest.Close(t, rec)
		f := tracetest.Open(t, rec.Path())
		v := tracetest.View(t, f)
		for id := range uint32(f.Len()) {
			if id > 0 && f.Parent(id) >= id {
				t.Errorf("order %v: the parent of %d is %d", order, id, f.Parent(id))
			}
			e, _ := f.Entry(id)
			if v.Role(rowOf(t, v, id)) == view.RoleSpan {
				_, hasParent := e.Attribute(format.AttrParentSpanID)
				_, hasTrace := e.Attribute(format.AttrTraceID)
				if top := f.Parent(id) == 0; hasParent || hasTrace != top {
					t.Errorf("order %v: span %s below %d has parent_span_id %t, trace_id %t", order, e.Metadata.Name, f.Parent(id), hasParent, hasTrace)
				}
			}
		}
		expect.Equal(t, tracetest.ViewOutline(t, f), "root(a(b(c(link event)) d(e)) entrace.end)", "order %v", order)
	})
}

// permute calls fn with every permutation of the numbers below n.
func permute(n int, fn func([]int)) {
	order := make([]int, n)
	for i := range order {
		order[i] = i
	}
	var rec func(int)
	rec = func(k int) {
		if k == n {
			fn(order)
			return
		}
		for i := k; i < n; i++ {
			order[k], order[i] = order[i], order[k]
			rec(k + 1)
			order[k], order[i] = order[i], order[k]
		}
	}
	rec(0)
}

// TestOfferedNeverFalls records an open span and then the whole span with the same ids, which ends it. Both
// records count.
func TestOfferedNeverFalls(t *testing.T) {
	rec := tracetest.Create(t, "app.et", nil)
	begun := span("begun", 2, 0)
	begun.Open = true
	must(t, tracetest.WriteSpan(rec, begun))
	must(t, tracetest.WriteSpan(rec, span("begun", 2, 0)))
	before := rec.Stats().Spans
	must(t, rec.Flush(t.Context()))
	if st := rec.Stats().Spans; st.Offered != before.Offered || st.Written != st.Offered || st.Waiting != 0 {
		t.Errorf("the account is %+v before a flush, and %+v behind it", before, st)
	}
	tracetest.Close(t, rec)
	expect.Equal(t, tracetest.Outline(t, tracetest.Open(t, rec.Path())), "root(begun(span end) entrace.end)", "tracetest.Outline")
}

// TestOrphans records spans whose parents never arrive, and spans that are their own ancestors. Close
// writes all of them.
func TestOrphans(t *testing.T) {
	for _, v := range []format.Version{format.V1, format.V2} {
		rec := tracetest.Create(t, "app.et", &recorder.Options{Version: v})
		res, err := rec.Resource(named("resource"))
		must(t, err)
		for _, s := range []*tracetest.Span{
			span("child of none", 2, 9), span("its child", 3, 2), span("sibling", 4, 9),
			span("ring 1", 5, 6), span("ring 2", 6, 5), span("own parent", 7, 7),
		} {
			s.Resource = res
			must(t, tracetest.WriteSpan(rec, s))
		}
		remote := span("remote", 8, 99)
		remote.Remote, remote.Resource = true, res
		must(t, tracetest.WriteSpan(rec, remote))
		must(t, rec.Flush(context.Background()))
		if st := rec.Stats(); st.Spans.Waiting != 5 || st.Spans.Written != 2 || st.Spans.Offered != 7 {
			t.Errorf("before Close: %+v", st.Spans)
		}
		tracetest.Close(t, rec)
		if st := rec.Stats(); st.Spans.Waiting != 0 || st.Spans.Written != 7 || st.Entries.Offered != st.Entries.Written {
			t.Errorf("after Close: %+v", st)
		}
		f := tracetest.Open(t, rec.Path())
		want := "root(resource(own parent remote child of none(its child) sibling ring 1(ring 2)) entrace.end)"
		expect.Equal(t, tracetest.Outline(t, f), want, "version %d: the tree", v)
		for id := range uint32(f.Len()) {
			e, err := f.Entry(id)
			must(t, err)
			parent, has := e.Attribute(format.AttrParentSpanID)
			if orphan := f.Parent(id) == 1; has != orphan || orphan && len(parent.Text()) != 16 {
				t.Errorf("%s has parent_span_id %q", e.Metadata.Name, parent.Text())
			}
		}
	}
}

// TestRemoteParentInFile records a span with a remote parent that the file happens to have. The span is
// written below it.
func TestRemoteParentInFile(t *testing.T) {
	rec := tracetest.Create(t, "app.et", nil)
	must(t, tracetest.WriteSpan(rec, span("client", 1, 0)))
	server := span("server", 2, 1)
	server.Remote = true
	must(t, tracetest.WriteSpan(rec, server))
	tracetest.Close(t, rec)
	f := tracetest.Open(t, rec.Path())
	expect.Equal(t, tracetest.Outline(t, f), "root(client(server) entrace.end)", "the tree")
	e, err := f.Entry(2)
	must(t, err)
	expect.Len(t, e.Attributes, 2, "the server span repeats what its parent says")
}

func TestWaitingBounds(t *testing.T) {
	for _, x := range []struct {
		name string
		o    recorder.Options
	}{
		{"spans", recorder.Options{MaxWaitingSpans: 3}},
		{"bytes", recorder.Options{MaxWaitingBytes: 300}},
	} {
		t.Run(x.name, func(t *testing.T) {
			rec := tracetest.Create(t, "app.et", &x.o)
			for i := byte(2); i < 12; i++ {
				must(t, tracetest.WriteSpan(rec, span(fmt.Sprint("s", i), i, i-1)))
				must(t, rec.Flush(context.Background()))
				if n := rec.Stats().Spans.Waiting; n > 3 {
					t.Errorf("%d spans wait", n)
				}
			}
			must(t, tracetest.WriteSpan(rec, span("s1", 1, 0)))
			must(t, rec.Flush(context.Background()))
			if n := rec.Stats().Spans.Waiting; n > 3 {
				t.Errorf("%d spans wait", n)
			}
			tracetest.Close(t, rec)
			want := "root(s1(s2(s3(s4(s5(s6(s7(s8(s9(s10(s11)))))))))) entrace.end)"
			expect.Equal(t, tracetest.ViewOutline(t, tracetest.Open(t, rec.Path())), want, "the view")
		})
	}
}

func TestWaitingAge(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rec := tracetest.Create(t, "app.et", &recorder.Options{MaxWaitingAge: 10 * time.Second})
		must(t, tracetest.WriteSpan(rec, span("first", 2, 9)))
		time.Sleep(6 * time.Second)
		must(t, tracetest.WriteSpan(rec, span("second", 3, 8)))
		for _, want := range []uint64{2, 1, 0} {
			synctest.Wait()
			expect.Equal(t, rec.Stats().Spans.Waiting, want, "spans wait")
			time.Sleep(6 * time.Second)
		}
		tracetest.Close(t, rec)
	})
}

// TestLiveSpan ends a span that was written at its beginning.
func TestLiveSpan(t *testing.T) {
	for _, v := range []format.Version{format.V1, format.V2} {
		rec := tracetest.Create(t, "app.et", &recorder.Options{Version: v})
		s := span("span", 1, 0)
		s.Open, s.Wait = true, false
		s.Entry.Attributes = append(s.Entry.Attributes, tracetest.Attributes("kept", 1, "changed", "[1]", mapping.AttrJSON, `["changed"]`)...)
		must(t, tracetest.WriteSpan(rec, s))
		must(t, rec.Log(s.Ref, tracetest.Log("m")))
		end := &format.TraceEntry{Message: format.Some("renamed"), Metadata: format.Metadata{Name: format.NameSpanEnd, Level: format.LevelError}}
		end.Attributes = tracetest.Attributes(
			format.AttrSpanID, s.Entry.Attributes[0].Value,
			format.AttrDuration, uint64(5),
			"changed", 2,
			"new", "[]",
			mapping.AttrJSON, `["new"]`,
		)
		event := *named("event 1")
		event.Attributes = tracetest.Attributes(mapping.AttrEvent, true)
		must(t, tracetest.EndSpan(rec, s.Ref, []format.TraceEntry{event}, end))
		must(t, rec.Log(s.Ref, tracetest.Log("late")))
		must(t, tracetest.EndSpan(rec, spanRef(1, 77), nil, end))
		must(t, rec.Flush(context.Background()))
		if n := rec.Stats().Entries.Dropped.Invalid; n != 1 {
			t.Errorf("%d entries were invalid, want the end of an unknown span", n)
		}
		tracetest.Close(t, rec)
		f := tracetest.Open(t, rec.Path())
		expect.Equal(t, tracetest.Outline(t, f), "root(span(event event 1 span end event) entrace.end)", "the tree")
		expect.Equal(t, tracetest.ViewOutline(t, f), "root(renamed(event event 1 event) entrace.end)", "the view")
		vw := tracetest.View(t, f)
		e, err := vw.Entry(1)
		must(t, err)
		for name, want := range map[string]format.Value{
			"kept": format.I64Value(1), "changed": format.I64Value(2), "new": format.StringValue("[]"),
			format.AttrDuration: format.U64Value(5), mapping.AttrJSON: format.StringValue(`["new"]`), format.AttrTime: format.U64Value(1),
			format.AttrTraceID: format.StringValue(strings.Repeat("0", 31) + "1"),
		} {
			if got, ok := e.Attribute(name); !ok || !got.Equal(want) {
				t.Errorf("version %d: %s is %s %q, want %q", v, name, got.AppendDecimal(nil), got.Text(), want.Text())
			}
		}
		expect.Equal(t, e.Metadata.Level, format.LevelError, "the level")
	}
}

// TestLogs checks that log records are below their spans.
func TestLogs(t *testing.T) {
	rec := tracetest.Create(t, "app.et", &recorder.Options{Durability: recorder.DurabilityWriteThrough})
	log := func(message string, ref format.SpanRef) {
		must(t, rec.Log(ref, tracetest.Log(message)))
	}
	log("before the resource", format.SpanRef{})
	res, err := rec.Resource(named("resource"))
	must(t, err)
	if again, err := rec.Resource(named("resource")); *again != *res || err != nil {
		t.Errorf("an equal resource is another one, %v", err)
	}
	log("without a span", format.SpanRef{})
	log("before its span", spanRef(1, 1))
	s := span("span", 1, 0)
	s.Resource = res
	must(t, tracetest.WriteSpan(rec, s))
	log("in its span", spanRef(1, 1))
	log("of another", spanRef(1, 2))
	tracetest.Close(t, rec)
	f := tracetest.Open(t, rec.Path())
	v := tracetest.View(t, f)
	for id, want := range map[uint32]struct {
		message   string
		raw, view uint32
		ids       int
	}{
		1: {"before the resource", 0, 0, 0},
		3: {"without a span", 2, 2, 0},
		4: {"before its span", 2, 5, 2},
		6: {"in its span", 5, 5, 0},
		7: {"of another", 2, 2, 2},
	} {
		e, err := f.Entry(id)
		must(t, err)
		if e.Message.Value != want.message || f.Parent(id) != want.raw || v.Parent(view.Row(id)) != view.Row(want.view) || len(e.Attributes) != want.ids {
			t.Errorf("entry %d is %q below %d, in the view below %d, with %d ids; want %+v", id, e.Message.Value, f.Parent(id), v.Parent(view.Row(id)), len(e.Attributes), want)
		}
	}
}

// TestHygiene records text that is not valid UTF-8, and an empty entry.
func TestHygiene(t *testing.T) {
	for _, v := range []format.Version{format.V1, format.V2} {
		rec := tracetest.Create(t, "app.iet", &recorder.Options{Version: v})
		e := &format.TraceEntry{
			Message:  format.Some("m\xff\xfe"),
			Metadata: format.Metadata{Name: "n\xff", Target: "t\xff", File: format.Some("f\xff"), ModulePath: format.Some("p\xff")},
			Attributes: tracetest.Attributes(
				"z\xff", "bad\xff",
				"a", "good",
			),
		}
		id, err := rec.Append(e)
		must(t, err)
		empty, err := rec.Append(&format.TraceEntry{})
		must(t, err)
		tracetest.Close(t, rec)
		must(t, expect.Err(recorder.Verify(rec.Path(), func(problem error) { t.Errorf("version %d: %v", v, problem) })))
		f := tracetest.Open(t, rec.Path())
		got, err := f.Entry(id)
		must(t, err)
		if got.Message.Value != "m\ufffd\ufffd" || got.Metadata.Name != "n\ufffd" || got.Metadata.Target != "t\ufffd" ||
			got.Metadata.File.Value != "f\ufffd" || got.Metadata.ModulePath.Value != "p\ufffd" {
			t.Errorf("the texts are %q %+v", got.Message.Value, got.Metadata)
		}
		if b, _ := got.Attribute("z\ufffd"); !b.Equal(format.BytesValue([]byte("bad\xff"))) {
			t.Errorf("a value that is no text is %v %q, want Bytes", b.Kind(), b.Text())
		}
		if raw, err := entrybytes.Of(f).Append(nil, empty); err != nil || len(bytes.Trim(raw, "\x00")) == 0 {
			t.Errorf("an empty entry is stored as %x, which reads as the mark of a crash", raw)
		}
		if e.Attributes[0].Name != "z\xff" {
			t.Error("Append changed its argument")
		}
	}
}

func TestTooLarge(t *testing.T) {
	for _, v := range []format.Version{format.V1, format.V2} {
		rec := tracetest.Create(t, "app.et", &recorder.Options{Version: v, MaxEntrySize: 10000})
		e := named("big")
		e.Message = format.Some(strings.Repeat("m", 20000))
		e.Attributes = tracetest.Attributes(
			"text", strings.Repeat("ü", 20000),
			"bytes", make([]byte, 20000),
			"small", "kept",
		)
		id, err := rec.Append(e)
		must(t, err)
		many := named("many")
		for i := range wire.MaxAttributes + 10 {
			many.Attributes = append(many.Attributes, format.Attribute{Name: fmt.Sprint("otel.", i)})
		}
		expect.Is(t, expect.Err(rec.Append(many)), format.ErrTooLarge, "an entry of attributes that must stay")
		if st := rec.Stats().Entries; st.Dropped.TooLarge != 1 || st.Offered != st.Written+st.Dropped.Total() {
			t.Errorf("the account is %+v", st)
		}
		tracetest.Close(t, rec)
		f := tracetest.Open(t, rec.Path())
		raw, err := entrybytes.Of(f).Append(nil, id)
		must(t, err)
		got, err := f.Entry(id)
		must(t, err)
		text, _ := got.Attribute("text")
		small, _ := got.Attribute("small")
		mark, _ := got.Attribute(mapping.AttrTruncated)
		if len(raw) > 10000 || !strings.HasSuffix(text.Text(), "…") || text.Kind() != format.KindString || small.Text() != "kept" || !mark.Bool() {
			t.Errorf("%d bytes; text ends in %q, small is %q, mark %t", len(raw), text.Text()[max(0, len(text.Text())-4):], small.Text(), mark.Bool())
		}
	}
}

func TestBadEntries(t *testing.T) {
	rec := tracetest.Create(t, "app.et", nil)
	expect.Is(t, expect.Err(rec.Append(&format.TraceEntry{Parent: 1})), format.ErrInvalid, "Append below an entry to come")
	expect.Is(t, expect.Err(rec.Append(&format.TraceEntry{Metadata: format.Metadata{Level: 5}})), format.ErrInvalid, "Append with level 5")
	if st := rec.Stats().Entries; st.Dropped.Invalid != 2 || st.Offered != 3 || st.Written != 1 {
		t.Errorf("the account is %+v", st)
	}
}

// TestConcurrent records from many goroutines. The counts must add up.
func TestConcurrent(t *testing.T) {
	rec := tracetest.Create(t, "app.et", nil)
	var wg sync.WaitGroup
	const workers, rounds = 16, 50
	for w := range workers {
		wg.Go(func() {
			for i := range rounds {
				ref := format.SpanRef{TraceID: [16]byte{byte(w + 1)}, SpanID: id8(i + 1)}
				s := &tracetest.Span{Span: recorder.Span{Ref: ref, Open: true}}
				s.Entry.Metadata.Name = "s"
				s.Entry.Attributes = tracetest.Attributes(format.AttrSpanID, string(wire.AppendHex(nil, ref.SpanID[:])), format.AttrTime, uint64(1))
				if i > 0 {
					s.Parent = format.SpanRef{TraceID: ref.TraceID, SpanID: id8(i)}
				}
				err := errors.Join(tracetest.WriteSpan(rec, s), rec.Log(ref, tracetest.Log("m")))
				err = errors.Join(err, tracetest.EndSpan(rec, ref, nil, named(format.NameSpanEnd)))
				expect.OK(t, err)
				if st := rec.Stats(); st.Entries.Offered != st.Entries.Written+st.Entries.Waiting+st.Entries.Dropped.Total() {
					t.Errorf("the account is %+v", st.Entries)
				}
			}
		})
	}
	wg.Wait()
	tracetest.Close(t, rec)
	expect.Equal(t, tracetest.Open(t, rec.Path()).Len(), 2+workers*rounds*3, "entries")
	expect.OK(t, expect.Err(recorder.Verify(rec.Path(), func(problem error) { t.Error(problem) })))
}

// TestCloseRace closes a recorder while other goroutines record. Every record without an error is in the
// file, and Stats counts the others.
func TestCloseRace(t *testing.T) {
	rec := tracetest.Create(t, "app.et", nil)
	var wg sync.WaitGroup
	var mu sync.Mutex
	taken := 0
	for range 8 {
		wg.Go(func() {
			for {
				_, err := rec.Append(named("x"))
				if errors.Is(err, recorder.ErrClosed) {
					return
				}
				expect.OK(t, err)
				mu.Lock()
				taken++
				mu.Unlock()
			}
		})
	}
	time.Sleep(time.Millisecond)
	tracetest.Close(t, rec)
	wg.Wait()
	expect.Equal(t, tracetest.Open(t, rec.Path()).Len(), taken+2, "entries in the file")
	if st := rec.Stats().Entries; st.Dropped.Closed != 8 || st.Offered != st.Written+8 {
		t.Errorf("the account is %+v", st)
	}
}

func TestDiscard(t *testing.T) {
	rec := recorder.Discard()
	b := rec.Batch()
	to := inside.OfBatch(b).Direct()
	with := to.Attributes(nil, func() { to.String("a", "b") })
	for range 100 {
		b.Log(format.SpanRef{}, 0)
		b.Begin(format.Some("m"), &format.Metadata{})
		to.Add(with)
		b.End()
		must(t, b.Write())
	}
	if !rec.Discards() {
		t.Error("Discards is false")
	}
	_, err := rec.Append(named("x"))
	res, rerr := rec.Resource(named("resource"))
	s := span("s", 1, 0)
	s.Resource = res
	err = errors.Join(err, rerr, tracetest.WriteSpan(rec, s), tracetest.EndSpan(rec, s.Ref, nil, named("end")), rec.Log(s.Ref, named("event")), rec.Sync(context.Background()), rec.Close(t.Context()))
	expect.OK(t, err)
}

// TestRecorderAllocations counts the allocations of recording.
func TestRecorderAllocations(t *testing.T) {
	if recorder.RaceEnabled {
		t.Skip("the race detector makes pools forget")
	}
	for _, v := range []format.Version{format.V1, format.V2} {
		rec := tracetest.Create(t, "app.iet", &recorder.Options{Version: v})
		e := named("event")
		e.Message = format.Some("m")
		for i := range 10 {
			e.Add(fmt.Sprint("a", 9-i), format.U64Value(uint64(i)))
		}
		s := span("s", 1, 0)
		s.Open, s.Wait = true, false
		must(t, tracetest.WriteSpan(rec, s))
		for what, fn := range map[string]func(){
			"Log in span": func() { _ = rec.Log(s.Ref, e) },
			"Log apart":   func() { _ = rec.Log(spanRef(3, 3), e) },
		} {
			if n := hosttest.Allocations(100, fn); n > 0 {
				t.Errorf("version %d: %s allocates %v times, want 0", v, what, n)
			}
		}
	}
}

func TestCodecAllocations(t *testing.T) {
	e := named("event")
	for i := range 10 {
		e.Add(fmt.Sprint("a", i), format.StringValue("value"))
	}
	for _, v := range []format.Version{format.V1, format.V2} {
		b := make([]byte, 0, 1024)
		var d format.TraceEntry
		n := hosttest.Allocations(100, func() {
			b = format.AppendTraceEntry(b[:0], v, e)
			if _, err := format.DecodeTraceEntry(b, v, &d); err != nil {
				t.Error(err)
			}
		})
		if n > 0 {
			t.Errorf("version %d: encoding and decoding allocate %v times, want 0", v, n)
		}
	}
}

// TestNoDurabilityCannotBeChosen: DurabilityNone is only a result.
func TestNoDurabilityCannotBeChosen(t *testing.T) {
	none := recorder.DurabilityNone
	if _, err := recorder.Create(filepath.Join(t.TempDir(), "app.et"), &recorder.Options{Durability: none}); err == nil {
		t.Error("Create returns no error")
	}
	if _, err := recorder.ParseDurability(none.String()); err == nil {
		t.Error("ParseDurability returns no error")
	}
}

// TestSharedAttributesOfWaitingSpan checks that log records have their shared attributes even if they wait
// with their span.
func TestSharedAttributesOfWaitingSpan(t *testing.T) {
	path := filepath.Join(t.TempDir(), "app.et")
	rec := tracetest.CreateAt(t, path, nil)
	res, err := rec.Resource(named(format.NameResource))
	must(t, err)
	must(t, tracetest.WriteSpan(rec, span("s", 2, 1)))
	must(t, rec.Flush(t.Context()))
	b := rec.Batch()
	to := inside.OfBatch(b).Direct()
	shared := to.Attributes(nil, func() { to.String("shared", "value") })
	for range 3 {
		b.Log(spanRef(1, 2), 0)
		b.Below(res)
		b.Begin(format.Some("m"), &format.Metadata{Name: "log"})
		b.User()
		to.Add(shared)
		to.String("own", "value")
		b.End()
	}
	must(t, b.Write())
	must(t, rec.Flush(t.Context()))
	must(t, tracetest.WriteSpan(rec, span("p", 1, 0)))
	tracetest.Close(t, rec)
	logs := 0
	must(t, tracetest.Open(t, path).Walk(0, func(_ uint32, e *format.TraceEntry) error {
		if e.Metadata.Name == "log" {
			logs++
			own, _ := e.Attribute("own")
			if v, _ := e.Attribute("shared"); v.Text() != "value" || own.Text() != "value" {
				t.Errorf("the attributes are %v", e.Attributes)
			}
		}
		return nil
	}))
	expect.Equal(t, logs, 3, "log records")
}
