package view_test

import (
	"bytes"
	"runtime"
	rt "runtime/trace"
	"strings"
	"testing"

	"github.com/entrace-go/entrace/format"
	"github.com/entrace-go/entrace/internal/read/spanstates"
	"github.com/entrace-go/entrace/internal/testkit/expect"
	"github.com/entrace-go/entrace/internal/testkit/tracetest"
)

func spanWithID(id string) *format.TraceEntry {
	return tracetest.Entry("a",
		format.AttrTime, uint64(1e18),
		format.AttrDuration, uint64(100_000_000),
		format.AttrSpanID, id,
		format.AttrTraceID, strings.Repeat("1", 32),
	)
}

// execTrace returns the entry that package control/provider writes for an execution trace.
func execTrace(b []byte) *format.TraceEntry {
	return &format.TraceEntry{Metadata: format.Metadata{Name: "exec.trace", Target: "runtime/trace"}, Attributes: tracetest.Attributes("data", b)}
}

// TestStatesOfGrowingFile checks that an execution trace is read only once, and that spans that are added later
// are also found in it.
func TestStatesOfGrowingFile(t *testing.T) {
	recorded := tracetest.ReadFile(t, "../internal/read/gotrace/testdata/go1.26.trace")
	g := grow(t, format.V2, format.IET)
	g.add(format.Root(), spanWithID("0000000000000001"), execTrace(recorded))
	v, err := viewOf(t, g.file).Extend(t.Context())
	must(t, err)
	before, err := spanstates.Of(t.Context(), v)
	must(t, err)
	g.add(spanWithID("0000000000000002"))
	v, err = v.Extend(t.Context())
	must(t, err)
	after, err := spanstates.Of(t.Context(), v)
	must(t, err)
	if _, ok := after.Of(3); !ok {
		t.Error("the span that came later is not joined")
	}
	a, b := before.Traces(), after.Traces()
	if len(a) != 1 || len(b) != 1 || &a[0].Spans[0] != &b[0].Spans[0] {
		t.Errorf("the execution trace was read again: there are %d, and then %d", len(a), len(b))
	}
	w, err := b[0].Window(t.Context(), b[0].First, b[0].Last)
	if err != nil || w.Damage != nil {
		t.Error(err, w)
	}
}

// TestStatesOfSameIDs checks that n spans and m marks with the same id do not need memory for n·m pairs.
func TestStatesOfSameIDs(t *testing.T) {
	const n = 2000
	var b bytes.Buffer
	must(t, rt.Start(&b))
	for range n {
		rt.Log(t.Context(), "otel.end", "0000000000000001")
	}
	rt.Stop()
	g := grow(t, format.V2, format.IET)
	g.add(format.Root())
	for range n {
		g.add(spanWithID("0000000000000001"))
	}
	g.add(execTrace(b.Bytes()))
	v, err := viewOf(t, g.file).Extend(t.Context())
	must(t, err)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	s, err := spanstates.Of(t.Context(), v)
	must(t, err)
	runtime.ReadMemStats(&after)
	joined := 0
	for r := range v.Rows() {
		for span := range s.Traces()[0].Spans {
			if s.Is(r, 0, int32(span)) {
				joined++
			}
		}
	}
	expect.Equal(t, joined, n, "spans joined")
	if got := (after.TotalAlloc - before.TotalAlloc) >> 20; got > 30 {
		t.Errorf("it takes %d MiB", got)
	}
}
