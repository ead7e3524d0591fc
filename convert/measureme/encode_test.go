package measureme

import (
	"bytes"
	"context"
	"errors"
	"io"
	"maps"
	"math"
	"math/rand/v2"
	"runtime"
	"strconv"
	"strings"
	"testing"

	"github.com/entrace-go/entrace/convert/internal/converttest"
	"github.com/entrace-go/entrace/format"
	"github.com/entrace-go/entrace/internal/core/mapping"
	"github.com/entrace-go/entrace/internal/otel"
	"github.com/entrace-go/entrace/internal/testkit/tracetest"
	"github.com/entrace-go/entrace/view"
)

// A tree has the entries of a trace.
type tree struct{ entries []*format.TraceEntry }

func (w *tree) put(e *format.TraceEntry, parent uint32) uint32 {
	e.Parent = parent
	w.entries = append(w.entries, e)
	return uint32(len(w.entries) - 1)
}

func attribute(name string, v otel.Any) otel.Attribute {
	return otel.NewAttribute(name, &v)
}

// span returns a span. If parent is 0, it has no parent.
func span(name string, id, parent byte, start, duration int64) *otel.Span {
	s := &otel.Span{
		Name: name, TraceID: [16]byte{0xaa}, SpanID: [8]byte{id}, Start: start, Duration: duration, Ended: duration >= 0,
		Kind: otel.KindInternal, Flags: mapping.DefaultTraceFlags,
	}
	if parent != 0 {
		s.Parent = [8]byte{parent}
	}
	return s
}

func build(t testing.TB, fn func(w *tree)) *view.View {
	t.Helper()
	w := &tree{[]*format.TraceEntry{format.Root()}}
	fn(w)
	return converttest.View(t, w.entries...)
}

func TestEncodeSpans(t *testing.T) {
	v := build(t, func(w *tree) {
		r := &otel.Resource{Attributes: []otel.Attribute{
			attribute("service.name", otel.Any{Kind: otel.String, Text: "my shop"}),
			attribute("process.pid", otel.Any{Kind: otel.Int, Int: 77}),
		}}
		resource := w.put(r.Entry(), 0)
		a := span("GET /\x00", 1, 0, 100, 50)
		a.Kind, a.Status, a.Description, a.Scope.Name = otel.KindServer, otel.StatusError, "it broke", "lib"
		a.Attributes = []otel.Attribute{
			attribute("n", otel.Any{Kind: otel.Int, Int: -5}),
			attribute("list", otel.Any{Kind: otel.List, List: []otel.Any{{Kind: otel.Bool, Bool: true}}}),
			attribute("bytes", otel.Any{Kind: otel.Bytes, Text: "\xff\x00"}),
			attribute("thread.id", otel.Any{Kind: otel.Int, Int: 40}),
			attribute("time_unix_nano", otel.Any{Kind: otel.String, Text: "mine"}),
		}
		first := w.put(a.Entry(otel.Where{}), resource)
		link := otel.Link{TraceID: [16]byte{0xbb}, SpanID: [8]byte{0xcc}, Flags: mapping.DefaultTraceFlags}
		w.put(link.Entry("lib"), first)
		ev := otel.Event{Name: "cache miss", Time: 110, HasTime: true, Attributes: []otel.Attribute{attribute("f", otel.Any{Kind: otel.Float, Float: 1.5})}}
		w.put(ev.Entry("lib"), first)
		w.put(span("child", 2, 1, 100, 50).Entry(otel.Where{Trace: true, Parent: true}), first)
		w.put(span("at the same time", 3, 1, 120, 10).Entry(otel.Where{Trace: true, Parent: true}), first)
		w.put(span("still open", 4, 1, 130, -1).Entry(otel.Where{Trace: true, Parent: true}), first)
		log := otel.Log{Body: otel.Any{Kind: otel.String, Text: "slow"}, Time: 900, HasTime: true, Observed: 900, Severity: otel.SeverityOf(format.LevelWarn), SeverityText: "WARN"}
		w.put(log.Entry(otel.Where{Trace: true, Parent: true}), first)
		log.HasTime, log.Observed = false, 0
		w.put(log.Entry(otel.Where{}), resource)
		ended := span("recorded live", 5, 0, 300, -1).Entry(otel.Where{})
		live := w.put(ended, resource)
		w.put(tracetest.Entry(format.NameSpanEnd,
			format.AttrDuration, uint64(7),
			format.AttrSpanID, "0500000000000000",
			"late", true,
		), live)
	})
	b := converter.Bytes(t, v)
	trace, parent := "trace_id=aa000000000000000000000000000000", "parent_span_id=0100000000000000"
	want := []row{
		{Kind: "server", Label: "GET /\uFFFD", Thread: 1, Start: 100, End: 150, Args: []string{
			trace, "span_id=0100000000000000", "status=ERROR", "scope=lib", "bytes=/wA=", "list=[true]", "n=-5", "otel.attr.time_unix_nano=mine",
			"otel.status_description=it broke", "thread.id=40",
			`links=[{"trace_id":"bb000000000000000000000000000000","span_id":"cc00000000000000"}]`,
		}},
		{Kind: "event", Label: "cache miss", Thread: 1, At: 110, Args: []string{trace, "span_id=0100000000000000", "scope=lib", "f=1.5"}},
		{Kind: "internal", Label: "child", Thread: 1, Start: 100, End: 150, Args: []string{trace, "span_id=0200000000000000", parent}},
		{Kind: "internal", Label: "at the same time", Thread: 2, Start: 120, End: 130, Args: []string{trace, "span_id=0300000000000000", parent}},
		{Kind: "internal", Label: "still open", Thread: 2, Start: 130, End: 900, Args: []string{trace, "span_id=0400000000000000", parent, "entrace.open=true"}},
		{Kind: "log", Label: "slow", Thread: 3, At: 900, Args: []string{trace, "span_id=0100000000000000", "level=WARN"}},
		{Kind: "log", Label: "slow", Thread: 3, At: 100, Args: []string{"level=WARN"}},
		{Kind: "internal", Label: "recorded live", Thread: 1, Start: 300, End: 307, Args: []string{trace, "span_id=0500000000000000", "late=true"}},
	}
	again := mustDecode(t, b)
	diff(t, rows(t, again), want)
	e, err := again.Entry(1)
	must(t, err)
	pid, _ := e.Attribute(attrPID)
	if n, _ := pid.I64(); n != 77 || e.Message.Value != "my_shop" {
		t.Errorf("the resource is %+v", e)
	}
	if text, _ := e.Attribute(attrMetadata); !strings.Contains(text.Text(), `"resources":[{"process.pid":"77","service.name":"my shop"}]`) {
		t.Errorf("the metadata is %s", text.Text())
	}
}

// TestEncodeNests encodes spans that overlap at random. On each thread of the result, as the tools require,
// intervals must nest and an interval must come after its contents.
func TestEncodeNests(t *testing.T) {
	for seed := range uint64(30) {
		r := rand.New(rand.NewPCG(seed, 1))
		total := int64(0)
		v := build(t, func(w *tree) {
			var ids []uint32
			for n := range 200 {
				parent, at := uint32(0), byte(0)
				if n > 0 && r.IntN(5) > 0 {
					at = byte(r.IntN(n)) + 1
					parent = ids[at-1]
				}
				s := span(strconv.Itoa(r.IntN(5)), byte(n+1), at, 1+r.Int64N(100), r.Int64N(40))
				total += s.Duration
				ids = append(ids, w.put(s.Entry(otel.Where{}), parent))
			}
		})
		b := converter.Bytes(t, v)
		s := scanned(t, b)
		open := make(map[uint32][]place)
		sum := uint64(0)
		for i := int64(s.events.Len()) - 1; i >= 0; i-- {
			e := s.event(i)
			sum += e.second() - e.first()
			stack := open[e.thread]
			for len(stack) > 0 && (stack[len(stack)-1].start() > e.first() || stack[len(stack)-1].end() < e.second()) {
				if top := stack[len(stack)-1]; top.start() < e.second() && e.first() < top.end() {
					t.Fatalf("seed %d: record %d overlaps a later one on its thread", seed, i)
				}
				stack = stack[:len(stack)-1]
			}
			open[e.thread] = append(stack, placeOf(i, e.first(), e.second(), false))
		}
		if sum != uint64(total) || s.events.Len() != 200 {
			t.Errorf("seed %d: %d records take %d, want 200 and %d", seed, s.events.Len(), sum, total)
		}
		if got, want := selfTimes(t, mustDecode(t, b)), reverse(t, b); !maps.Equal(got, want) {
			t.Errorf("seed %d: self times are %v, the tools say %v", seed, got, want)
		}
	}
}

func TestEncodeRoundTrip(t *testing.T) {
	for _, name := range []string{"gold", "py-basic", "py-unmapped_virtual"} {
		v := mustDecode(t, read(t, "testdata/"+name+".mm_profdata"))
		b := converter.Bytes(t, v)
		again := mustDecode(t, b)
		diff(t, rows(t, again), rows(t, v))
		if !bytes.Equal(converter.Bytes(t, again), b) {
			t.Errorf("%s: written a third time, it is another file", name)
		}
	}
}

func TestEncodeRange(t *testing.T) {
	for _, test := range []struct {
		name            string
		start, duration int64
		err             error
	}{
		{"all of it", 5, maxEnd, nil},
		{"too long", 5, maxEnd + 1, errRange},
		{"overflow", math.MaxInt64 - 1, math.MaxInt64, nil},
		{"before 1970", -1, 1, errRange},
	} {
		t.Run(test.name, func(t *testing.T) {
			v := build(t, func(w *tree) { w.put(span("a", 1, 0, test.start, test.duration).Entry(otel.Where{}), 0) })
			if err := Encode(context.Background(), io.Discard, v); !errors.Is(err, test.err) {
				t.Errorf("the error is %v, want %v", err, test.err)
			}
		})
	}
}

func TestEncodeEmpty(t *testing.T) {
	if got := rows(t, mustDecode(t, converter.Bytes(t, build(t, func(*tree) {})))); len(got) != 0 {
		t.Errorf("got %v", got)
	}
}

// TestMemory checks the documented memory: for Decode the sum of all that it allocates, for Encode the memory that
// is in use during its writes.
func TestMemory(t *testing.T) {
	const n = 200_000
	p := profile(t, n)
	limit := uint64(24<<20 + 96*n)
	if got := allocated(func() {
		w, err := format.NewWriter(io.Discard, format.V2, format.IET, nil)
		if err == nil {
			err = Decode(context.Background(), bytes.NewReader(p), w)
		}
		if err != nil {
			t.Error(err)
		}
	}); got > limit {
		t.Errorf("Decode allocates %d bytes, want %d at most", got, limit)
	} else {
		t.Logf("Decode allocates %d bytes for %d events", got, n)
	}
	v := mustDecode(t, p)
	most := heap()
	limit = most + 16<<20 + 24*n
	must(t, Encode(context.Background(), writes(func() { most = max(most, heap()) }), v))
	if most > limit {
		t.Errorf("%d bytes are alive while Encode writes, want %d at most", most, limit)
	}
}

type writes func()

func (fn writes) Write(b []byte) (int, error) {
	fn()
	return len(b), nil
}

// heap returns the number of bytes in use.
func heap() uint64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

func allocated(fn func()) uint64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	fn()
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc
}
