package timeline_test

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/entrace-go/entrace/format"
	"github.com/entrace-go/entrace/internal/otel"
	"github.com/entrace-go/entrace/internal/read/timeline"
	"github.com/entrace-go/entrace/internal/testkit/expect"
	"github.com/entrace-go/entrace/internal/testkit/hosttest"
	"github.com/entrace-go/entrace/internal/testkit/tracetest"
	"github.com/entrace-go/entrace/view"
)

// An interval is a span. Parent is the index of its parent, or -1. Group is the number of its resource.
type interval struct {
	Start, End    int64
	Parent, Group int32
}

// intervalsOf returns a view of intervals, in the order of their indices. It adds 1 to all times, because 0 means
// no time.
func intervalsOf(t testing.TB, in []interval) *view.View {
	return viewOf(t, func(write func(e *format.TraceEntry) uint32) {
		write(format.Root())
		groups := make(map[int32]uint32)
		for i := range in {
			x := &in[i]
			if _, ok := groups[x.Group]; !ok {
				r := otel.Resource{Attributes: otel.Attributes{{Name: "group", Value: format.I64Value(int64(x.Group))}}}
				groups[x.Group] = write(r.Entry())
			}
			s := &otel.Span{Name: strconv.Itoa(i), TraceID: [16]byte{1}, SpanID: spanID(i), Start: x.Start + 1, Duration: x.End - x.Start, Ended: true}
			if x.Parent >= 0 {
				s.Parent = spanID(int(x.Parent))
			}
			e := tracetest.Of(s, otel.Where{})
			e.Parent = groups[x.Group]
			write(e)
		}
	})
}

// lanesIn returns the lanes of the n intervals of a view, and the order in which the intervals begin.
func lanesIn(t testing.TB, v *view.View, n int) (lanes, order []int32) {
	t.Helper()
	tl, err := timeline.NewTimeline(t.Context(), v)
	must(t, err)
	lanes = make([]int32, n)
	must(t, tl.Moments(t.Context(), func(m *timeline.Moment) error {
		if m.IsSpan {
			i, err := strconv.Atoi(v.Name(m.Row))
			lanes[i], order = m.Lane, append(order, int32(i))
			return err
		}
		return nil
	}))
	return lanes, order
}

func lanesOf(t testing.TB, in []interval) (lanes, order []int32) {
	t.Helper()
	return lanesIn(t, intervalsOf(t, in), len(in))
}

// TestAssign compares the lanes of the intervals in testdata/lanes.txt.
func TestAssign(t *testing.T) {
	lanesOf(t, nil) // of nothing
	tracetest.Golden(t, "testdata/lanes.txt", *update, func(input string) string {
		var in []interval
		for text := range strings.SplitSeq(input, " | ") {
			x := interval{Parent: -1}
			_, _ = fmt.Sscanf(text, "%d %d in %d group %d", &x.Start, &x.End, &x.Parent, &x.Group) // an interval may have no parent
			in = append(in, x)
		}
		lanes, order := lanesOf(t, in)
		check(t, in, lanes, order)
		return strings.Trim(fmt.Sprint(lanes), "[]")
	})
}

var update = flag.Bool("update", false, "write the expected lanes in testdata again")

// check checks the invariants of every layout.
func check(t *testing.T, in []interval, lanes, order []int32) {
	t.Helper()
	seen := slices.Sorted(slices.Values(order))
	for i, at := range seen {
		if int32(i) != at {
			t.Fatalf("the order is %v", order)
		}
	}
	for n, a := range order {
		x := &in[a]
		for _, b := range order[n+1:] {
			y := &in[b]
			if y.Start < x.Start || y.Start == x.Start && y.End > x.End {
				t.Errorf("%v comes before %v", *x, *y)
			}
			if x.Group == y.Group && lanes[a] == lanes[b] && y.Start < x.End && y.End > x.End {
				t.Errorf("%v and %v overlap on lane %d", *x, *y, lanes[a])
			}
		}
	}
	// An interval that fits into the lane of its parent must be on this lane.
	for i := range in {
		x := &in[i]
		if x.Parent < 0 || int(x.Parent) == i {
			continue
		}
		p := &in[x.Parent]
		if p.Group != x.Group || lanes[x.Parent] == lanes[i] || x.Start < p.Start || x.End > p.End || x.Start == p.End {
			continue
		}
		if slices.Index(order, x.Parent) > slices.Index(order, int32(i)) {
			continue // skip equal intervals whose parents form a cycle
		}
		if !slices.ContainsFunc(order, func(b int32) bool {
			y := &in[b]
			return b != x.Parent && int(b) != i && y.Group == x.Group && lanes[b] == lanes[x.Parent] && y.Start >= p.Start && y.Start <= x.Start && y.End > x.Start
		}) {
			t.Errorf("%v is on lane %d, its parent %v on lane %d, where nothing is in its way", *x, lanes[i], *p, lanes[x.Parent])
		}
	}
}

func random(r *rand.Rand, n int, span, length int64) []interval {
	in := make([]interval, n)
	order := r.Perm(n) // in this order, parents are before their children, so that they form no cycle
	for k, i := range order {
		in[i].Start = r.Int64N(span)
		in[i].End = in[i].Start + r.Int64N(length)
		in[i].Parent = -1
		if up := r.IntN(k + 1); up < k {
			in[i].Parent = int32(order[up])
		}
		in[i].Group = int32(r.IntN(2))
		if p := in[i].Parent; p >= 0 && r.IntN(2) == 0 {
			// This interval fits into its parent.
			in[i].Group = in[p].Group
			in[i].Start = in[p].Start + r.Int64N(in[p].End-in[p].Start+1)
			in[i].End = in[i].Start + r.Int64N(in[p].End-in[i].Start+1)
		}
	}
	return in
}

func TestAssignRandom(t *testing.T) {
	for seed := range uint64(hosttest.InCI(100, 500)) {
		r := rand.New(rand.NewPCG(seed, 0))
		in := random(r, 1+r.IntN(60), 1+r.Int64N(100), 1+r.Int64N(40))
		lanes, order := lanesOf(t, in)
		check(t, in, lanes, order)
		if t.Failed() {
			t.Fatalf("seed %d: %v on %v", seed, in, lanes)
		}
	}
}

// TestAssignFewest checks that intervals without parents need only as many lanes as intervals are open at the same
// time.
func TestAssignFewest(t *testing.T) {
	for seed := range uint64(hosttest.InCI(60, 300)) {
		r := rand.New(rand.NewPCG(seed, 1))
		in := random(r, 200, 1000, 1+r.Int64N(60))
		for i := range in {
			in[i].Parent, in[i].Group = -1, 0
			in[i].End++
		}
		lanes, _ := lanesOf(t, in)
		most := 0
		for i := range in {
			n := 0
			for j := range in {
				if in[j].Start <= in[i].Start && in[j].End > in[i].Start {
					n++
				}
			}
			most = max(most, n)
		}
		expect.MustEqual(t, int(slices.Max(lanes))+1, most, "seed %d: lanes", seed)
	}
}

// TestAssignFast uses input that makes algorithms slow that visit an interval more than once.
func TestAssignFast(t *testing.T) {
	if testing.Short() {
		t.Skip("computes for a long time, and starts no goroutine")
	}
	const n = 30_000
	deep, ends, wide := make([]interval, n), make([]interval, n), make([]interval, n)
	for i := range n {
		deep[i] = interval{Start: int64(i), End: 3*n - int64(i), Parent: int32(i) - 1}
		wide[i] = interval{Start: int64(i), End: n + int64(i), Parent: 0}
		// First a deep stack of intervals, nearly all of which end at n. Then as many intervals without length at
		// n. Their parent is below intervals of the stack that have not ended.
		ends[i] = interval{Start: int64(i), End: n, Parent: int32(i) - 1}
		if i == 1 {
			ends[i].End = n + 1
		}
		if i > n/2 {
			ends[i] = interval{Start: n, End: n, Parent: 0}
		}
	}
	r := rand.New(rand.NewPCG(5, 5))
	for name, in := range map[string][]interval{
		"deep": deep, "wide": wide, "ends": ends, "random": random(r, n, 1e9, 1e6), "crowded": random(r, n, 1000, 1000), "none": make([]interval, n),
	} {
		v := intervalsOf(t, in)
		start := time.Now()
		lanesIn(t, v, len(in))
		if took := time.Since(start); took > time.Minute {
			t.Errorf("%s: %d intervals took %v", name, n, took)
		}
	}
}

// TestMomentsReusesMemory: all spans share the memory of one moment.
func TestMomentsReusesMemory(t *testing.T) {
	in := make([]interval, 1000)
	for i := range in {
		in[i] = interval{int64(10 * i), int64(10*i + 5), -1, 0}
	}
	tl, err := timeline.NewTimeline(t.Context(), intervalsOf(t, in))
	must(t, err)
	if n := hosttest.Allocations(10, func() {
		must(t, tl.Moments(t.Context(), func(*timeline.Moment) error { return nil }))
	}); n > 20 {
		t.Errorf("%v allocations for %d spans", n, len(in))
	}
}

func BenchmarkAssign(b *testing.B) {
	in := random(rand.New(rand.NewPCG(5, 5)), 100_000, 1e9, 1e6)
	v := intervalsOf(b, in)
	b.ReportAllocs()
	for b.Loop() {
		lanesIn(b, v, len(in))
	}
}
