package recorder_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"runtime"
	"strings"
	"sync"
	"testing"
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
	for _, v := range tracetest.BothVersions {
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
	expect.Is(t, expect.Err(os.Stat(rec.StreamPath())), os.ErrNotExist, "the IET")
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

var dirNames = hosttest.Names

// TestParentsFirst exports a trace in every order of its spans.
func TestParentsFirst(t *testing.T) {
	rec := tracetest.Create(t, "app.et", nil)
	spans := []*tracetest.Span{span("a", 1, 0), span("b", 2, 1), span("c", 3, 2), span("d", 4, 1), span("e", 5, 4)}
	spans[2].Children = []format.TraceEntry{*named("link"), *named("event")}
	orders := byte(0) // each order is a trace
	permute(len(spans), func(order []int) {
		orders++
		for _, i := range order {
			s := spans[i]
			s.Ref.TraceID[0] = orders
			if i > 0 {
				s.Parent.TraceID = s.Ref.TraceID
			}
			must(t, tracetest.WriteSpan(rec, s))
		}
	})
	tracetest.Close(t, rec)
	f := tracetest.Open(t, rec.Path())
	v := tracetest.View(t, f)
	for id := range uint32(f.Len()) {
		if id > 0 && f.Parent(id) >= id {
			t.Errorf("the parent of %d is %d", id, f.Parent(id))
		}
		e, _ := f.Entry(id)
		if v.Role(rowOf(t, v, id)) == view.RoleSpan {
			_, hasParent := e.Attribute(format.AttrParentSpanID)
			_, hasTrace := e.Attribute(format.AttrTraceID)
			if top := f.Parent(id) == 0; hasParent || hasTrace != top {
				t.Errorf("span %s below %d has parent_span_id %t, trace_id %t", e.Metadata.Name, f.Parent(id), hasParent, hasTrace)
			}
		}
	}
	expect.Equal(t, tracetest.ViewOutline(t, f), "root("+strings.Repeat("a(b(c(link event)) d(e)) ", int(orders))+"entrace.end)", "the trees")
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

// TestHygiene records text that is not valid UTF-8, and an empty entry.
func TestHygiene(t *testing.T) {
	for _, v := range tracetest.BothVersions {
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
	for _, v := range tracetest.BothVersions {
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
	for _, v := range tracetest.BothVersions {
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
	for _, v := range tracetest.BothVersions {
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
	if _, err := recorder.Create(hosttest.Path(t, "app.et"), &recorder.Options{Durability: none}); err == nil {
		t.Error("Create returns no error")
	}
	if _, err := recorder.ParseDurability(none.String()); err == nil {
		t.Error("ParseDurability returns no error")
	}
}

// TestSharedAttributesOfWaitingSpan checks that log records have their shared attributes even if they wait
// with their span.
func TestSharedAttributesOfWaitingSpan(t *testing.T) {
	path := hosttest.Path(t, "app.et")
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
