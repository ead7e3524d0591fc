package analyze_test

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/entrace-go/entrace/format"
	"github.com/entrace-go/entrace/internal/analyze"
	"github.com/entrace-go/entrace/query"
	"github.com/entrace-go/entrace/view"
)

// TestMannWhitney compares MannWhitney and Tail with results of SciPy 1.16:
// mannwhitneyu(method="asymptotic") and binomtest(alternative="greater").
func TestMannWhitney(t *testing.T) {
	list := func(n int, f func(i int) int) []int64 {
		var l []int64
		for i := range n {
			l = append(l, int64(f(i)))
		}
		slices.Sort(l)
		return l
	}
	for _, x := range []struct {
		what string
		a, b []int64
		want float64
	}{
		{"shifted", list(40, func(i int) int { return i * 37 % 101 }), list(30, func(i int) int { return i*37%101 + 15 }), 0.07800667517923913},
		{"ties", list(25, func(i int) int { return i % 4 }), list(45, func(i int) int { return i % 5 }), 0.11577509151240244},
		{"same", list(20, func(i int) int { return i }), list(20, func(i int) int { return i }), 1},
		{"far", list(20, func(i int) int { return i }), list(25, func(i int) int { return 100 + i }), 1.205252299499121e-08},
		{"equal", list(20, func(int) int { return 7 }), list(25, func(int) int { return 7 }), 1},
	} {
		for _, got := range []float64{analyze.MannWhitney(x.a, x.b), analyze.MannWhitney(x.b, x.a)} {
			if math.Abs(got-x.want) > 1e-12*max(1, x.want) && math.Abs(got/x.want-1) > 1e-9 {
				t.Errorf("%s: p = %v, want %v", x.what, got, x.want)
			}
		}
	}
	if p := analyze.MannWhitney(list(19, func(i int) int { return i }), list(100, func(i int) int { return i })); !math.IsNaN(p) {
		t.Errorf("of 19 values p = %v", p)
	}
	for _, x := range []struct {
		before, after int
		sizes         [2]int
		want          float64
	}{
		{0, 3, [2]int{100, 100}, 0.125},
		{0, 7, [2]int{100, 100}, 0.0078125},
		{2, 9, [2]int{50, 100}, 0.23411065386374022},
		{5, 5, [2]int{10, 30}, 0.9802722930908203},
		{3, 0, [2]int{10, 10}, 1},
		{0, 3, [2]int{0, 10}, 1},
	} {
		if got := analyze.Tail(x.before, x.after, x.sizes); math.Abs(got-x.want) > 1e-12 {
			t.Errorf("%+v: %v", x, got)
		}
	}
}

// runs returns a run for each view, with all its rows.
func runs(t *testing.T, views ...*view.View) (all []query.Run) {
	t.Helper()
	for _, v := range views {
		all = append(all, query.Run{View: v, Rows: everything(t, v)})
	}
	return all
}

// TestCompare compares runs in which paths are new, gone, slower or unchanged.
func TestCompare(t *testing.T) {
	build := func(slow int64, fails int, extra string) *view.View {
		all := []*format.TraceEntry{format.Root()}
		for i := range 50 {
			root := uint32(len(all))
			e := span(0, fmt.Sprintf("%x", root), "GET /cart", int64(i)*1000, 500+slow)
			e.Attributes[1].Value = format.StringValue(fmt.Sprintf("%032x", i+1))
			all = append(all, e)
			for range 2 { // a span that calls itself
				e := span(uint32(len(all)-1), fmt.Sprintf("%x", len(all)), "visit", int64(i)*1000, 100+slow+int64(i%7))
				if i < fails {
					e.Metadata.Level = format.LevelError
				}
				all = append(all, e)
			}
			all = append(all, span(root, fmt.Sprintf("%x", len(all)), "always", int64(i)*1000+200, int64(i*13%50)))
			all = append(all, span(root, fmt.Sprintf("%x", len(all)), extra, int64(i)*1000+300, 5))
		}
		return viewOf(t, all)
	}
	a, b := build(0, 0, "old"), build(50, 10, "new")
	d, err := analyze.Compare(t.Context(), runs(t, a), runs(t, b))
	must(t, err)
	got := make(map[string]*analyze.PathDiff)
	for i, p := range d.Paths {
		var names []string
		for _, s := range p.Path {
			names = append(names, s.Name)
		}
		got[strings.Join(names, " > ")] = &d.Paths[i]
	}
	if len(got) != 5 || d.Traces != [2]int{50, 50} {
		t.Fatalf("there are %d paths of %v traces: %v", len(got), d.Traces, got)
	}
	visit := got["GET /cart > visit"]
	if visit.Before.Count != 100 || visit.Before.P50 != 103 || visit.After.P50 != 153 || visit.After.Errors != 20 || visit.P > 1e-6 {
		t.Errorf("visit: %+v", visit)
	}
	if share, sure := visit.Change(); math.Abs(share-50.0/106) > 1e-9 || !sure {
		t.Errorf("visit has changed by %v, %v", share, sure)
	}
	if has, sure := visit.HasNewErrors(); !has || !sure {
		t.Errorf("new errors: %v, %v", has, sure)
	}
	if always := got["GET /cart > always"]; always.P != 1 || always.CountP < 0.4 {
		t.Errorf("always: %+v", always)
	}
	if is, sure := got["GET /cart > new"].IsNew(); !is || !sure {
		t.Errorf("new: %v, %v", is, sure)
	}
	if is, _ := got["GET /cart > old"].IsNew(); is || got["GET /cart > old"].After.Count != 0 {
		t.Errorf("old: %+v", got["GET /cart > old"])
	}
	if d.Paths[0].Path[len(d.Paths[0].Path)-1].Name != "visit" {
		t.Errorf("the first one is %+v", d.Paths[0].Path)
	}
}

// TestCompareManyPaths checks the limits of the depth and of the number of paths.
func TestCompareManyPaths(t *testing.T) {
	all := []*format.TraceEntry{format.Root()}
	for i := range 1000 { // a chain of spans
		all = append(all, span(uint32(i), fmt.Sprintf("%x", i+1), fmt.Sprint("n", i%10), int64(i), 5))
	}
	v := viewOf(t, all)
	d, err := analyze.Compare(t.Context(), runs(t, v), runs(t, v))
	must(t, err)
	n := 0
	for _, p := range d.Paths {
		n += p.Before.Count
	}
	if len(d.Paths) > 300 || n+d.Other[0] != 1000 || d.Other[0] != d.Other[1] || d.Other[0] == 0 {
		t.Errorf("%d paths of %d spans, and %v others", len(d.Paths), n, d.Other)
	}
}
