package recorder_test

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/entrace-go/entrace/format"
	"github.com/entrace-go/entrace/internal/core/wire"
	"github.com/entrace-go/entrace/internal/testkit/expect"
	"github.com/entrace-go/entrace/internal/testkit/tracetest"
	"github.com/entrace-go/entrace/recorder"
	"github.com/entrace-go/entrace/view"
)

// TestRandomTrees records random forests in random orders and batches, with parents that
// are late, missing or remote. The file must have the same forests.
func TestRandomTrees(t *testing.T) {
	sizes := []int{1, 10, 100, 1000, 10000}
	for seed := range uint64(40) {
		rnd := rand.New(rand.NewPCG(seed, 7))
		n := sizes[rnd.IntN(len(sizes))]
		if seed < 36 {
			n = min(n, 1000)
		}
		rec := tracetest.Create(t, "app.et", &recorder.Options{Version: format.Version(1 + seed%2)})
		spans := make([]*tracetest.Span, n)
		parent := make([]int, n) // -1: none, -2: never recorded, -3: remote
		for i := range spans {
			s := &tracetest.Span{Span: recorder.Span{Wait: true, Ref: format.SpanRef{TraceID: [16]byte{1}, SpanID: id8(i + 1)}}}
			switch p := rnd.IntN(20); {
			case i == 0 || p == 0:
				parent[i] = -1
			case p == 1:
				parent[i], s.Parent = -2, format.SpanRef{TraceID: s.Ref.TraceID, SpanID: id8(n + 1 + i)}
			case p == 2:
				parent[i], s.Parent, s.Remote = -3, format.SpanRef{TraceID: s.Ref.TraceID, SpanID: id8(3*n + i)}, true
			default:
				parent[i] = rnd.IntN(i)
				s.Parent = format.SpanRef{TraceID: s.Ref.TraceID, SpanID: id8(parent[i] + 1)}
			}
			s.Entry.Metadata.Name = fmt.Sprint(i)
			s.Entry.Attributes = tracetest.Attributes(
				format.AttrSpanID, string(wire.AppendHex(nil, s.Ref.SpanID[:])),
				format.AttrTime, uint64(i),
			)
			for range rnd.IntN(3) {
				s.Children = append(s.Children, *tracetest.Entry("event"))
			}
			spans[i] = s
		}
		order := rnd.Perm(n)
		for len(order) > 0 {
			b := rec.Batch()
			k := 1 + rnd.IntN(min(len(order), 600))
			for _, i := range order[:k] {
				tracetest.Add(b, spans[i])
			}
			must(t, b.Write())
			order = order[k:]
		}
		tracetest.Close(t, rec)
		checkForest(t, seed, rec.Path(), spans, parent)
	}
}

func checkForest(t *testing.T, seed uint64, path string, spans []*tracetest.Span, parent []int) {
	t.Helper()
	must(t, expect.Err(recorder.Verify(path, func(problem error) { t.Errorf("seed %d: %v", seed, problem) })))
	f := tracetest.Open(t, path)
	v := tracetest.View(t, f)
	at := make(map[string]view.Row)
	for id := range v.Rows() {
		if v.Role(id) != view.RoleSpan {
			continue
		}
		e, err := v.Entry(id)
		must(t, err)
		if _, twice := at[e.Metadata.Name]; twice {
			t.Fatalf("seed %d: span %s comes twice", seed, e.Metadata.Name)
		}
		at[e.Metadata.Name] = id
		if ref := v.Ref(id); ref.TraceID != ([16]byte{1}) {
			t.Errorf("seed %d: span %s has trace id %x", seed, e.Metadata.Name, ref.TraceID)
		}
	}
	expect.MustEqual(t, len(at), len(spans), "seed %d: spans", seed)
	for i, s := range spans {
		id := at[fmt.Sprint(i)]
		want := view.Row(0)
		if parent[i] >= 0 {
			want = at[fmt.Sprint(parent[i])]
		}
		expect.Equal(t, v.Parent(id), want, "seed %d: span %d is below entry", seed, i)
		events := 0
		for _, kid := range v.Children(id) {
			if v.Role(kid) != view.RoleSpan {
				events++
			}
		}
		expect.Equal(t, events, len(s.Children), "seed %d: events of span %d", seed, i)
		e, err := f.Entry(uint32(id))
		must(t, err)
		_, has := e.Attribute(format.AttrParentSpanID)
		expect.Equal(t, has, parent[i] < -1, "seed %d: span %d has parent_span_id", seed, i)
	}
}

func id8(n int) (id [8]byte) {
	for i := range 8 {
		id[7-i] = byte(n >> (8 * i))
	}
	return id
}
