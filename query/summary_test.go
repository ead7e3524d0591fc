package query_test

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/entrace-go/entrace/format"
	"github.com/entrace-go/entrace/internal/testkit/expect"
	"github.com/entrace-go/entrace/internal/testkit/tracetest"
	"github.com/entrace-go/entrace/query"
	"github.com/entrace-go/entrace/view"
)

// TestSummaryAsBruteForce compares the table with results computed from the tree and sorted
// durations. In the files, children come in any order, some before their parents.
func TestSummaryAsBruteForce(t *testing.T) {
	defer query.SmallSummaries()()
	for seed := range 4 {
		r := rand.New(rand.NewPCG(uint64(seed), 6))
		entries := shop(r, 9000)
		if seed%2 == 1 {
			for _, e := range entries[4000:] { // move some parents after their children
				if _, isSpan := e.Attribute(format.AttrSpanID); isSpan && r.IntN(3) == 0 {
					e.Add(format.AttrParentSpanID, format.StringValue(fmt.Sprintf("%016x", 3+r.IntN(8990))))
				}
			}
		}
		v := viewOf(t, entries)
		table, err := query.Summary(t.Context(), v, everything(t, v), nil)
		must(t, err)
		type want struct {
			took  []int64
			self  int64
			n     int64
			begun [10]uint32
		}
		wants := make(map[[2]string]*want)
		for x := range v.Rows() {
			if v.Role(x) != view.RoleSpan {
				continue
			}
			key := [2]string{v.Service(x), v.Name(x)}
			w := wants[key]
			if w == nil {
				w = new(want)
				wants[key] = w
			}
			w.n++
			if start, timed := v.Start(x); timed && start >= 1200 && start < 1700 {
				w.begun[(start-1200)/50]++
			}
			if d, ended := v.Duration(x); ended {
				self, _ := v.SelfTime(x)
				w.took, w.self = append(w.took, int64(d)), w.self+int64(self)
			}
		}
		expect.MustEqual(t, len(table.Lines), len(wants), "seed %d: lines", seed)
		begun, err := table.Spread(t.Context(), v, everything(t, v), 1200, 50, 10)
		must(t, err)
		for _, line := range table.Lines {
			w := wants[[2]string{line[0].String(), line[1].String()}]
			slices.Sort(w.took)
			quantile := func(q float64) int64 { return w.took[max(0, int(float64(len(w.took))*q+0.999999)-1)] }
			got := []any{query.Number(line[2]), query.Number(line[5]), query.Number(line[6]), query.Number(line[7]), query.Number(line[8]), query.Number(line[10])}
			if want := []any{w.n, quantile(0.5), quantile(0.95), quantile(0.99), w.took[len(w.took)-1], w.self}; !slices.Equal(got, want) {
				t.Errorf("seed %d: %s has %v, want %v", seed, line[1], got, want)
			}
			expect.Slice(t, begun[table.Where(line)], w.begun[:], "seed %d: %s at the times", seed, line[1])
		}
	}
}

// TestSummaryOfManyNames checks that too many groups are an error, as for other tables.
func TestSummaryOfManyNames(t *testing.T) {
	defer func(n int) { *query.MaxGroups = n }(*query.MaxGroups)
	*query.MaxGroups = 3
	v := viewOf(t, steps(30))
	_, err := query.Summary(t.Context(), v, everything(t, v), nil)
	if e, ok := errors.AsType[*query.Error](err); !ok || e.Hint == "" {
		t.Errorf("the error is %v", err)
	}
}

// TestRateIsOfTheWholeTrace checks that a rate is the number of spans divided by the length of the
// whole trace, even if the spans began in a short burst. Fewer than 20 spans have no rate.
func TestRateIsOfTheWholeTrace(t *testing.T) {
	entries := steps(300)
	entries[1].Metadata.Name = "rare"
	v := viewOf(t, entries)
	first, last, _ := v.Period()
	table, err := query.Summary(t.Context(), v, everything(t, v), nil)
	must(t, err)
	for _, line := range table.Lines {
		n, _ := query.Number(line[2]).(int64)
		want := any(nil)
		if n >= 20 {
			want = float64(n) / (float64(last-first) / 1e9)
		} else if line[1].String() != "rare" {
			t.Errorf("%s has %d spans", line[1], n)
		}
		expect.Equal(t, query.Number(line[4]), want, "%s: the rate of %d spans", line[1], n)
	}
}

// TestCompareSaysWhatDiffers checks that compare() leaves out ids and attributes that are the same
// in all rows, and sorts the rest by the difference of their shares.
func TestCompareSaysWhatDiffers(t *testing.T) {
	entries := []*format.TraceEntry{format.Root()}
	for i := range 100 {
		user := "ada"
		if i >= 90 {
			user = "eve"
		}
		entries = append(entries, tracetest.Log("m",
			"port", 8090, "request.id", fmt.Sprint("id", i), "slow", i >= 90,
			"half", i%2, "user", user,
		))
	}
	got := tableText(t, viewOf(t, entries), "| compare({ .slow = true })")
	want := "7:slow 1:true 4:100 4:0 4:100 2:10 2:0; 7:user 7:eve 4:100 4:0 4:100 2:10 2:0; 7:slow 1:false 4:0 4:100 4:-100 2:0 2:90; 7:user 7:ada 4:0 4:100 4:-100 2:0 2:90"
	expect.Equal(t, got, want, "compare")
}

// TestSeriesAsBruteForce compares a series with the counted spans of each step, including steps
// without spans.
func TestSeriesAsBruteForce(t *testing.T) {
	defer query.SmallSummaries()()
	v := viewOf(t, shop(rand.New(rand.NewPCG(1, 8)), 3000))
	const every = 37
	table, err := query.Series(t.Context(), v, everything(t, v), every)
	must(t, err)
	took := make(map[int64][]int64)
	counts, errs := make(map[int64]int64), make(map[int64]int64)
	for r := range v.Rows() {
		if v.Role(r) != view.RoleSpan {
			continue
		}
		start, _ := v.Start(r)
		at := start / every * every
		counts[at]++
		if v.Flags(r).IsError() {
			errs[at]++
		}
		if d, ended := v.Duration(r); ended {
			took[at] = append(took[at], int64(d))
		}
	}
	n := int64(0)
	for i, line := range table.Lines {
		at, _ := query.Number(line[0]).(int64)
		if first, _ := query.Number(table.Lines[0][0]).(int64); at != first+int64(i)*every {
			t.Fatalf("step %d is at %d", i, at)
		}
		slices.Sort(took[at])
		want := any(nil)
		if k := len(took[at]); k > 0 {
			want = took[at][(k+1)/2-1]
		}
		if query.Number(line[1]) != counts[at] || query.Number(line[2]) != errs[at] || query.Number(line[3]) != want {
			t.Errorf("at %d: %v, want %d, %d and %v", at, line, counts[at], errs[at], want)
		}
		n += counts[at]
	}
	all := int64(0)
	for _, c := range counts {
		all += c
	}
	expect.Equal(t, n, all, "spans of the steps")
	if _, err := query.Series(t.Context(), v, everything(t, v), 0); err == nil {
		t.Error("a step without a length is no error")
	}
}

// TestHistogramOfOddNumbers checks that infinities and negative numbers have buckets of their own.
func TestHistogramOfOddNumbers(t *testing.T) {
	f := format.FloatValue
	v := viewOf(t, records(f(math.NaN()), f(math.Inf(1)), f(math.Inf(-1)), f(-3), f(-0.5), f(0), f(1.5)))
	want := "4:-Inf 4:-Inf 2:1; 4:-3.5 4:-3 2:1; 4:-3 4:-2.5 2:0; 4:-2.5 4:-2 2:0; 4:-2 4:-1.75 2:0; 4:-1.75 4:-1.5 2:0; 4:-1.5 4:-1.25 2:0; 4:-1.25 4:-1 2:0; 4:-1 4:0 2:1; 4:0 4:1 2:1; " +
		"4:1 4:1.25 2:0; 4:1.25 4:1.5 2:0; 4:1.5 4:1.75 2:1; 4:+Inf 4:+Inf 2:1"
	expect.Equal(t, tableText(t, v, "| histogram(.x)"), want, "the histogram")
}
