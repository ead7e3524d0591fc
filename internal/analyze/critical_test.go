package analyze_test

import (
	"fmt"
	"math/rand/v2"
	"reflect"
	"testing"

	"github.com/entrace-go/entrace/format"
	"github.com/entrace-go/entrace/internal/analyze"
	"github.com/entrace-go/entrace/internal/testkit/tracetest"
	"github.com/entrace-go/entrace/view"
)

// aStep is a Step without Beside.
type aStep struct {
	row      view.Row
	depth    int
	from, to int64
}

// slowPath computes the critical path of a span between two times directly by the definition: at
// each point it considers all children. The steps are in reverse order.
func slowPath(v *view.View, r view.Row, depth int, from, to int64) (steps []aStep) {
	start, _ := v.Start(r)
	took, ended := v.Duration(r)
	end := start + int64(took)
	for at := to; ; {
		best := view.Row(0)
		var bestFrom, bestTo int64
		for _, kid := range v.Children(r) {
			s, timed := v.Start(kid)
			d, over := v.Duration(kid)
			e := s + int64(d)
			if !over && !ended {
				e = to
			}
			if v.Role(kid) != view.RoleSpan || !timed || !over && ended || over && ended && e > end || e > at || e <= from {
				continue
			}
			if best == 0 || e > bestTo || e == bestTo && s >= bestFrom {
				best, bestFrom, bestTo = kid, s, e
			}
		}
		if best == 0 {
			return append(steps, aStep{r, depth, from, at})
		}
		steps = append(steps, aStep{r, depth, bestTo, at})
		next := max(bestFrom, from)
		steps = append(steps, slowPath(v, best, depth+1, next, bestTo)...)
		at = next
	}
}

// TestCritical compares the critical paths in random forests with slowPath. It also checks the
// invariants of every path.
func TestCritical(t *testing.T) {
	for seed := range seeds(100, 300) {
		r := rand.New(rand.NewPCG(seed, 1))
		all := []*format.TraceEntry{format.Root(), span(0, "1", "top", 100, 100)}
		type place struct{ from, took int64 }
		places := []place{{}, {100, 100}}
		for len(all) < 2+r.IntN(25) {
			up := 1 + r.IntN(len(all)-1)
			from := places[up].from - 3 + int64(r.IntN(int(places[up].took)+3))
			took := int64(1 + r.IntN(int(places[up].took)))
			places = append(places, place{from, took})
			if r.IntN(20) == 0 {
				took = -1
			}
			all = append(all, span(uint32(up), fmt.Sprintf("%x", len(all)), "s", from, took))
		}
		v := viewOf(t, all)
		path, ok := analyze.Critical(v, 1)
		if !ok || path.From != 100 || path.From+path.Duration != 200 || path.Open {
			t.Fatalf("seed %d: %v %+v", seed, ok, path)
		}
		var want []aStep
		for _, s := range slowPath(v, 1, 0, 100, 200) {
			if s.from < s.to {
				want = append([]aStep{s}, want...)
			}
		}
		var got []aStep
		at := path.From
		for _, s := range path.Steps {
			if s.From != at || s.To() <= s.From {
				t.Fatalf("seed %d: a step from %d to %d follows %d", seed, s.From, s.To(), at)
			}
			at = s.To()
			got = append(got, aStep{s.Span, s.Depth, s.From, s.To()})
		}
		if at != path.From+path.Duration || !reflect.DeepEqual(got, want) {
			t.Fatalf("seed %d: the path is\n%v\nwant\n%v", seed, got, want)
		}
	}
}

// TestCriticalBeside checks that children which end after their parent are in Async, and that links
// and log records that name another span are in Beside.
func TestCriticalBeside(t *testing.T) {
	named := func(parent uint32, at int64, key, id string) *format.TraceEntry {
		return &format.TraceEntry{Parent: parent, Message: format.Some("waiting"), Metadata: format.Metadata{Name: "event", Level: format.LevelInfo}, Attributes: tracetest.Attributes(format.AttrTime, uint64(at), key, id)}
	}
	v := viewOf(t, []*format.TraceEntry{
		format.Root(),
		span(0, "a", "request", 1, 99),
		span(1, "b", "lock", 10, 30),
		span(1, "c", "late", 50, 90),
		span(1, "d", "open", 60, -1),
		named(2, 12, "holder", fmt.Sprintf("%016s", "c")),
		named(2, 13, "holder", fmt.Sprintf("%016s", "9")), // no such span
		named(2, 14, "self", fmt.Sprintf("%016s", "b")),
		span(0, "e", "hangs", 200, -1),
		span(8, "f", "in it", 210, 20),
		tracetest.Below(8, tracetest.Log("last", format.AttrTime, uint64(500))),
	})
	path, ok := analyze.Critical(v, 1)
	if !ok || len(path.Steps) != 3 || !reflect.DeepEqual(path.Async, []view.Row{3, 4}) || !reflect.DeepEqual(path.Steps[1].Beside, []view.Row{5}) {
		t.Errorf("%v: %+v", ok, path)
	}
	path, ok = analyze.Critical(v, 8)
	if !ok || !path.Open || path.From+path.Duration != 500 || len(path.Steps) != 3 || path.Steps[1].Span != 9 {
		t.Errorf("of one that has not ended: %v, %+v", ok, path)
	}
	if _, ok := analyze.Critical(v, 5); ok {
		t.Error("a log record has a path")
	}
}

// TestCriticalLarge checks that a span with very many children, and a very deep chain of spans, do
// not take quadratic time.
func TestCriticalLarge(t *testing.T) {
	long(t)
	const n = 50_000
	for what, up := range map[string]func(i int) uint32{"wide": func(int) uint32 { return 1 }, "deep": func(i int) uint32 { return uint32(i) }} {
		all := []*format.TraceEntry{format.Root(), span(0, "1", "top", 1, 4*n)}
		for i := 1; i < n; i++ {
			start, took := int64(2*i), int64(1)
			if what == "deep" {
				start, took = int64(i+1), int64(4*n-2*i)
			}
			all = append(all, span(up(i), fmt.Sprintf("%x", i+1), "s", start, took))
		}
		v := viewOf(t, all)
		path, ok := analyze.Critical(v, 1)
		if !ok || len(path.Steps) != 2*n-1 || len(path.Async) != 0 {
			t.Errorf("%s: %v, %d steps", what, ok, len(path.Steps))
		}
	}
}
