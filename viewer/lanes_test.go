package viewer_test

import (
	"fmt"
	"math"
	"net/url"
	"testing"

	"github.com/entrace-go/entrace/format"
	"github.com/entrace-go/entrace/internal/testkit/expect"
	"github.com/entrace-go/entrace/internal/testkit/tracetest"
	"github.com/entrace-go/entrace/query"
	"github.com/entrace-go/entrace/view"
	"github.com/entrace-go/entrace/viewer"
)

type flock struct {
	Packed bool
	From   int64 `json:"from_unix_nano"`
	To     int64 `json:"to_unix_nano"`
	Lanes  []struct {
		Service string
		Levels  int
	}
	Runs []struct {
		Lane, Count, Errors int
		At, Long            int64
		Row                 view.Row
		Name                string
		Open                bool
	}
	Spans int
}

// TestLanes compares a flame over time with the spans one by one. Each span is in one run, and the spans of a lane do
// not overlap. If a span is below another span of the same service, its lane is below the lane of the other span.
func TestLanes(t *testing.T) {
	for seed := range uint64(20) {
		v := viewOf(t, format.ET, randomTrace(seed, 200))
		h := serve(t, v, viewer.Options{})
		for _, ask := range []struct{ q, window, from, to string }{
			{}, {q: ".slow = yes"}, {window: "1200000000,1300000000"}, {from: "1500000000", to: "1510000000"}, {q: "level = error", from: "0", to: "999999999"}, {from: "2300000000", to: "9000000000"},
		} {
			values := url.Values{"n": {"4000"}, "q": {ask.q}, "window": {ask.window}}
			if ask.from != "" {
				values.Set("from", ask.from)
				values.Set("to", ask.to)
			}
			f := jsonOf[flock](t, h, "/api/lanes?"+values.Encode())
			if !f.Packed {
				t.Fatal("a lane is a depth")
			}
			from, to := f.From, f.To
			hits, inside := v.NewSet(), v.NewSet()
			for r := range resultOf(t, v, ask.q).Rows.All() {
				hits.Add(r)
			}
			if ask.window != "" {
				var err error
				inside, err = query.Overlapping(t.Context(), v, nil, 1200000000, 1300000000)
				must(t, err)
			}
			end := func(r view.Row) int64 {
				start, _ := v.Start(r)
				took, ended := v.Duration(r)
				if !ended {
					took, _ = v.OpenFor(r)
				}
				return start + int64(took)
			}
			want := map[view.Row]bool{}
			for r := range v.Rows() {
				if v.Role(r) != view.RoleSpan || ask.window != "" && !inside.Has(r) {
					continue
				}
				among := ask.q == ""
				for up := r; up != 0; up = v.Parent(up) {
					among = among || hits.Has(up) && v.Role(up) == view.RoleSpan
				}
				if start, _ := v.Start(r); among && start <= to && end(r) >= from {
					want[r] = true
				}
			}
			expect.Equal(t, f.Spans, len(want), "trace %d, %+v: spans", seed, ask)
			lane, until := map[view.Row]int{}, map[int]int64{}
			for _, run := range f.Runs {
				r := run.Row
				if run.Count == 1 && !want[r] {
					t.Errorf("trace %d, %+v: row %d is not selected", seed, ask, r)
				}
				start, _ := v.Start(r)
				if run.Count == 1 && (run.At != start-from || run.Long != end(r)-start || run.Name != v.Name(r) || run.Errors == 1 != v.Flags(r).IsError() || run.Open != v.Flags(r).Open()) {
					t.Errorf("trace %d, %+v: row %d is %d for %d", seed, ask, r, run.At, run.Long)
				}
				if last, known := until[run.Lane]; known && run.At < last {
					t.Errorf("trace %d, %+v: row %d overlaps another one in lane %d", seed, ask, r, run.Lane)
				}
				until[run.Lane] = run.At + run.Long
				lane[r] = run.Lane
				at, k := run.Lane, 0
				for at >= f.Lanes[k].Levels {
					at -= f.Lanes[k].Levels
					k++
				}
				expect.Equal(t, f.Lanes[k].Service, v.Service(r), "trace %d, %+v: row %d is in a lane", seed, ask, r)
			}
			for r := range lane {
				up, ok := lane[v.Parent(r)]
				start, _ := v.Start(r)
				if ok && v.Service(r) == v.Service(v.Parent(r)) && up >= lane[r] {
					if above, _ := v.Start(v.Parent(r)); above <= start {
						t.Errorf("trace %d, %+v: row %d is in lane %d, the one above in lane %d", seed, ask, r, lane[r], up)
					}
				}
			}
		}
	}
}

// TestManyLanes has more spans than can be packed into lanes, and more runs than an answer may contain.
func TestManyLanes(t *testing.T) {
	all := []*format.TraceEntry{format.Root()}
	const n = 100_100
	for i := range n {
		parent := uint32(0)
		if i%10 > 0 {
			parent = uint32(i - i%10 + 1 + (i%10-1)/3)
		}
		all = append(all, tracetest.Below(parent, tracetest.Entry(fmt.Sprint("s", i%10),
			format.AttrTime, uint64(1+i*1000),
			format.AttrDuration, uint64(900),
			format.AttrSpanID, fmt.Sprintf("%016x", i+1),
			format.AttrTraceID, fmt.Sprintf("%032x", 1),
		)))
	}
	v := viewOf(t, format.ET, all)
	h := serve(t, v, viewer.Options{})
	f := jsonOf[flock](t, h, "/api/lanes?n=4000")
	if f.Packed || f.Spans != n || len(f.Runs) > 8000 || len(f.Runs) < 2000 {
		t.Errorf("%d spans in %d runs, packed %v", f.Spans, len(f.Runs), f.Packed)
	}
	f = jsonOf[flock](t, h, "/api/lanes?n=2000&from=1000000&to=1100000")
	if !f.Packed || f.Spans != 100 || len(f.Runs) != 100 {
		t.Errorf("%d spans in %d runs, want 100 alone", f.Spans, len(f.Runs))
	}
	for _, path := range []string{"from=1&to=0", "n=0", "from=&to=", fmt.Sprintf("from=%d&to=%d", int64(math.MinInt64), int64(math.MaxInt64))} {
		expect.Equal(t, ask(h, "GET", "/api/lanes?"+path).Code, 400, "%s", path)
	}
}
