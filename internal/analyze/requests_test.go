package analyze_test

import (
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/entrace-go/entrace/format"
	"github.com/entrace-go/entrace/internal/analyze"
	"github.com/entrace-go/entrace/internal/testkit/expect"
	"github.com/entrace-go/entrace/internal/testkit/querytest"
	"github.com/entrace-go/entrace/view"
)

func requestsOf(t *testing.T, v *view.View) *analyze.Requests {
	t.Helper()
	q, err := analyze.RequestsOf(t.Context(), v, everything(t, v))
	must(t, err)
	return q
}

func choose(t *testing.T, q *analyze.Requests, b analyze.Box) *analyze.Choice {
	t.Helper()
	c, err := q.Choose(t.Context(), b)
	must(t, err)
	return c
}

func count(t *testing.T, v *view.View, text string) int {
	t.Helper()
	found, err := runOn(t, v, text)
	must(t, err)
	return found.Rows.Len()
}

// TestHeat: the cells of a box count as many requests as the query of the box selects.
func TestHeat(t *testing.T) {
	long(t)
	r := rand.New(rand.NewPCG(1, 2)) // #nosec G404 -- the same every time
	for seed, v := range []*view.View{
		(&querytest.Mall{Requests: 300, Slow: map[string]float64{"UPDATE stock": 9}, From: 250, Fails: .2}).Record(t, 1).View(),
		(&querytest.Mall{Requests: 1}).Record(t, 1).View(),
		viewOf(t, shop(r, 400)),
	} {
		q := requestsOf(t, v)
		columns, rows := 2+r.IntN(50), 1+r.IntN(30)
		h := q.Heat(columns, rows)
		if len(h.Edges) != rows+1 || !slices.IsSorted(h.Edges) {
			t.Fatalf("%d: the edges of %d rows are %v", seed, rows, h.Edges)
		}
		counts, at := make([][2]int, columns*(rows+1)), 0
		for i := 0; i < len(h.Cells); i += 3 {
			at += h.Cells[i]
			counts[at] = [2]int{h.Cells[i+1], h.Cells[i+2]}
		}
		for range seeds(30, 100) {
			x, y := r.IntN(columns), r.IntN(rows)
			x2, y2 := x+1+r.IntN(columns-x), y+1+r.IntN(rows-y)
			want := [2]int{}
			for i, c := range counts {
				if i/(rows+1) >= x && i/(rows+1) < x2 && i%(rows+1) >= y && i%(rows+1) < y2 {
					want[0], want[1] = want[0]+c[0], want[1]+c[1]
				}
			}
			box := analyze.Box{From: int64(h.From) + int64(x)*h.Width, To: int64(h.From) + int64(x2)*h.Width, Least: h.Edges[y], Most: h.Edges[y2]}
			for i, failed := range []bool{false, true} {
				box.Failed = failed
				c := choose(t, q, box)
				if found := count(t, v, c.Query); c.Requests != want[i] || c.Failed != want[1] && failed || found != want[i] {
					t.Fatalf("%d: %+v has %d, its cells %v, and %s finds %d", seed, box, c.Requests, want, c.Query, found)
				}
			}
		}
		whole := choose(t, q, analyze.Box{From: math.MinInt64, To: math.MaxInt64})
		if whole.Requests != h.Requests || whole.Failed != h.Failed || count(t, v, whole.Query) != h.Requests {
			t.Errorf("%d: all are %+v, and the map has %+v", seed, whole, h)
		}
	}
}

// TestHeatHostile: a Heat contains all requests, even if their times are absurd.
func TestHeatHostile(t *testing.T) {
	q := requestsOf(t, viewOf(t, []*format.TraceEntry{format.Root(), span(0, "1", "a", 1, 0), span(0, "2", "b", math.MaxInt64, math.MaxInt64), span(0, "3", "c", 1, -1)}))
	for _, rows := range []int{1, 40} {
		h, n := q.Heat(1, rows), 0
		for i := 1; i < len(h.Cells); i += 3 {
			n += h.Cells[i]
		}
		if all := choose(t, q, analyze.Box{To: math.MaxInt64}); n != 3 || h.Open != 1 || all.Requests != 2 {
			t.Errorf("%d requests are in the map %+v, and %d began before the last moment", n, h, all.Requests)
		}
	}
}

// TestChoose: Choose says which operation takes more time in the slow requests of a box, and which
// attribute distinguishes them.
func TestChoose(t *testing.T) {
	v := (&querytest.Mall{Requests: 600, Slow: map[string]float64{"UPDATE stock": 30}, Tenant: "t7", Report: time.Millisecond}).Record(t, 1).View()
	q := requestsOf(t, v)
	c := choose(t, q, analyze.Box{To: math.MaxInt64, Least: q.Heat(9, 9).P99 * 3 / 4})
	var says []string
	for _, g := range c.Groups {
		says = append(says, g.Text)
		for _, e := range g.Evidence {
			says = append(says, e.Text)
		}
	}
	text := strings.Join(says, "\n")
	for _, want := range []string{"UPDATE stock of stock takes", `.tenant = "t7": `} {
		expect.Has(t, text, want, "it says")
	}
	t.Log(text)
}
