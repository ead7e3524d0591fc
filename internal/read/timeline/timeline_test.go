package timeline_test

import (
	"runtime"
	"strconv"
	"testing"
	"time"

	"github.com/entrace-go/entrace/format"
	"github.com/entrace-go/entrace/internal/core/mapping"
	"github.com/entrace-go/entrace/internal/otel"
	"github.com/entrace-go/entrace/internal/read/timeline"
	"github.com/entrace-go/entrace/internal/testkit/expect"
	"github.com/entrace-go/entrace/internal/testkit/tracetest"
	"github.com/entrace-go/entrace/view"
)

var must = expect.Must

// viewOf returns the view of a trace with the given entries.
func viewOf(t testing.TB, entries func(write func(e *format.TraceEntry) uint32)) *view.View {
	x := tracetest.New(t, format.V2, format.IET)
	entries(x.Add)
	return x.View()
}

// withArrows returns the timeline of v, with its arrows.
func withArrows(t testing.TB, v *view.View) *timeline.Timeline {
	t.Helper()
	tl, err := timeline.NewTimeline(t.Context(), v)
	must(t, err)
	must(t, tl.Arrows(t.Context()))
	return tl
}

func spanID(n int) [8]byte { return [8]byte{1, 5: byte(n >> 16), 6: byte(n >> 8), 7: byte(n)} }

// overlapping writes n spans that all overlap. Each span has an event, a log record and a link to the span before
// it.
func overlapping(n int) func(write func(e *format.TraceEntry) uint32) {
	return func(write func(e *format.TraceEntry) uint32) {
		write(format.Root())
		trace := [16]byte{1}
		for i := range n {
			s := &otel.Span{Name: strconv.Itoa(i), TraceID: trace, SpanID: spanID(i), Start: int64(i + 1), Duration: int64(2 * n), Ended: true}
			id := write(tracetest.Of(s, otel.Where{}))
			for _, e := range []*format.TraceEntry{
				tracetest.Of(&otel.Link{TraceID: trace, SpanID: spanID(i - 1)}, ""),
				tracetest.Of(&otel.Event{Name: "event", Time: int64(2 * i), HasTime: true}, ""),
				tracetest.Of(&otel.Log{Body: otel.Any{Kind: otel.String, Text: "log"}, Time: int64(i), HasTime: true}, otel.Where{Trace: true, Parent: true}),
			} {
				e.Parent = id
				write(e)
			}
		}
	}
}

// TestTimelineMemory uses spans that all need their own lane and an arrow.
func TestTimelineMemory(t *testing.T) {
	const n = 20_000
	v := viewOf(t, overlapping(n))
	peak := make(chan uint64)
	stop := make(chan struct{})
	var before, now runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	go func() {
		most := uint64(0)
		for {
			select {
			case <-stop:
				peak <- most
				return
			case <-time.After(time.Millisecond):
				runtime.ReadMemStats(&now)
				most = max(most, now.HeapAlloc)
			}
		}
	}()
	tl := withArrows(t, v)
	calls := 0
	must(t, tl.Moments(t.Context(), func(*timeline.Moment) error { calls++; return nil }))
	close(stop)
	got, limit := int64(<-peak)-int64(before.HeapAlloc), int64(64<<20+96*v.Len())
	t.Logf("%d bytes for %d entries", got, v.Len())
	if got > limit {
		t.Errorf("%d bytes for %d entries, want at most %d", got, v.Len(), limit)
	}
	if calls != 3*n || tl.Flows != n-1 || tl.Processes[0].Lanes != n {
		t.Errorf("%d calls, %d flows, %d lanes", calls, tl.Flows, tl.Processes[0].Lanes)
	}
}

// TestTimelineSameIDs uses many spans with the same id, and as many links to this id. There must be one arrow per
// link, not one per pair of link and span.
func TestTimelineSameIDs(t *testing.T) {
	const n = 3000
	v := viewOf(t, func(write func(e *format.TraceEntry) uint32) {
		write(format.Root())
		for i := range n {
			s := &otel.Span{TraceID: [16]byte{1}, SpanID: spanID(0), Start: int64(i), Ended: true}
			write(tracetest.Of(s, otel.Where{}))
		}
		s := &otel.Span{TraceID: [16]byte{1}, SpanID: spanID(1), Start: n, Ended: true}
		last := write(tracetest.Of(s, otel.Where{}))
		for range n {
			e := tracetest.Of(&otel.Link{TraceID: [16]byte{1}, SpanID: spanID(0)}, "")
			e.Parent = last
			write(e)
		}
	})
	tl, err := timeline.NewTimeline(t.Context(), v)
	must(t, err)
	err = tl.Arrows(t.Context())
	if err != nil || tl.Flows != n {
		t.Errorf("%d arrows of %d links, %v", tl.Flows, n, err)
	}
	var d timeline.Details
	must(t, tl.Details(n+1, &d))
	left := d.Args[len(d.Args)-1]
	if len(d.Links.List) != 1000 {
		left, _ := left.Value.U64()
		t.Errorf("%d links are read, and %d left out", len(d.Links.List), left)
	}
	found := false
	for _, a := range d.Args {
		if n, _ := a.Value.U64(); a.Name == "entrace.links_left_out" && n == 2000 {
			found = true
		}
	}
	if !found {
		t.Errorf("nothing says that links are left out: %v", d.Args)
	}
}

// TestDetailsNames uses attributes whose names are already in use, some of them many times.
func TestDetailsNames(t *testing.T) {
	entry := func(names ...string) *format.TraceEntry {
		e := tracetest.Of(&otel.Span{Name: "s", TraceID: [16]byte{1}, SpanID: spanID(1), Ended: true}, otel.Where{})
		for _, n := range names {
			e.Add(n, format.BoolValue(true))
		}
		return e
	}
	many := make([]string, 50_000)
	for i := range many {
		many[i] = "x"
	}
	for _, c := range [][]string{{"x", "x", "x"}, {"x", "x#2", "x"}, {"kind", "otel.attr.kind", "links"}, many} {
		v := viewOf(t, func(write func(e *format.TraceEntry) uint32) {
			write(format.Root())
			write(entry(c...))
		})
		tl := withArrows(t, v)
		var d timeline.Details
		start := time.Now()
		must(t, tl.Details(1, &d))
		if took := time.Since(start); took > 2*time.Second {
			t.Errorf("%d attributes took %v", len(c), took)
		}
		seen := make(map[string]bool)
		n := 0
		for _, a := range d.Args {
			if seen[a.Name] {
				t.Errorf("%q comes twice", a.Name)
			}
			seen[a.Name] = true
			if a.Value.Bool() {
				n++
			}
		}
		expect.Equal(t, n, len(c), "attributes")
	}
}

// TestDetailsDurations checks that durations are written as durations, and that only whole numbers change.
func TestDetailsDurations(t *testing.T) {
	v := viewOf(t, func(write func(e *format.TraceEntry) uint32) {
		write(format.Root())
		e := tracetest.Of(&otel.Span{Name: "s", TraceID: [16]byte{1}, SpanID: spanID(1), Ended: true}, otel.Where{})
		e.Attributes = append(e.Attributes, tracetest.Attributes("took", int64(24e6), "n", int64(24e6), "text", "x", mapping.AttrDurations, `["took","text"]`)...)
		write(e)
	})
	tl := withArrows(t, v)
	var d timeline.Details
	must(t, tl.Details(1, &d))
	got := make(map[string]string)
	for _, a := range d.Args {
		got[a.Name] = a.Value.String()
	}
	if _, there := got[mapping.AttrDurations]; got["took"] != "24ms" || got["n"] != "24000000" || got["text"] != "x" || there {
		t.Errorf("the details are %v", got)
	}
}

// sequential writes n spans. Each span overlaps the next one, so that they need two lanes.
func sequential(n int) func(write func(e *format.TraceEntry) uint32) {
	return func(write func(e *format.TraceEntry) uint32) {
		write(format.Root())
		for i := range n {
			s := &otel.Span{Name: "s", TraceID: [16]byte{1}, SpanID: spanID(i), Start: int64(10*i + 1), Duration: 15, Ended: true}
			write(tracetest.Of(s, otel.Where{}))
		}
	}
}

// TestTimelineKeepsNoTimes measures the memory of a timeline of many spans. It must not store times, because the
// view has them.
func TestTimelineKeepsNoTimes(t *testing.T) {
	if testing.Short() {
		t.Skip("computes for a long time, and starts no goroutine")
	}
	const n = 200_000
	v := viewOf(t, sequential(n))
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	tl := withArrows(t, v)
	runtime.GC()
	runtime.ReadMemStats(&after)
	if got := int64(after.HeapAlloc) - int64(before.HeapAlloc); got > 10*n || tl.Processes[0].Lanes != 2 {
		t.Errorf("%d spans on %d lanes take %d bytes, want 10 for each on 2 lanes", n, tl.Processes[0].Lanes, got)
	}
	runtime.KeepAlive(v)
}

// TestTimelineOfManyLanes uses more than 65,536 lanes.
func TestTimelineOfManyLanes(t *testing.T) {
	const n = 1<<16 + 10
	v := viewOf(t, func(write func(e *format.TraceEntry) uint32) {
		write(format.Root())
		for i := range n {
			s := &otel.Span{Name: "s", TraceID: [16]byte{1}, SpanID: spanID(i), Start: int64(i + 1), Duration: 2 * n, Ended: true}
			write(tracetest.Of(s, otel.Where{}))
		}
	})
	tl := withArrows(t, v)
	want := int32(0)
	err := tl.Moments(t.Context(), func(m *timeline.Moment) error {
		if m.IsSpan {
			expect.MustEqual(t, m.Lane, want, "the lane")
			want++
		}
		return nil
	})
	if err != nil || want != n || tl.Processes[0].Lanes != n {
		t.Errorf("%d spans began on %d lanes, want %d, %v", want, tl.Processes[0].Lanes, n, err)
	}
}
