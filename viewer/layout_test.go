package viewer_test

import (
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"

	"github.com/entrace-go/entrace/format"
	"github.com/entrace-go/entrace/internal/testkit/expect"
	"github.com/entrace-go/entrace/internal/testkit/hosttest"
	"github.com/entrace-go/entrace/internal/testkit/tracetest"
	"github.com/entrace-go/entrace/viewer"
)

// TestDeepTraceOpensToItsLastRow opens all levels of a very deep trace, and then shows only the path to
// its last row.
func TestDeepTraceOpensToItsLastRow(t *testing.T) {
	const levels = 2000
	all := []*format.TraceEntry{format.Root()}
	for id := range uint32(levels) {
		all = append(all, tracetest.Below(id, tracetest.Entry(fmt.Sprint("level ", id+1))))
	}
	h := served(t, all)
	if r := rowsOf(t, h, "depth=1000000000"); r.Total != levels {
		t.Errorf("with all levels open there are %d rows, want %d", r.Total, levels)
	}
	r := rowsOf(t, h, fmt.Sprintf("depth=1000000000&only=%%22level+%d%%22&first=%d&n=1", levels, levels-1))
	if r.Total != levels || r.text()[len(r.text())-len("level 2000"):] != "level 2000" {
		t.Errorf("of the hit alone there are %d rows, the last is %s", r.Total, r.text())
	}
	for i, depth := range r.depths {
		expect.MustEqual(t, depth, levels-len(r.depths)+i, "row %d of those above is at level", i)
	}
}

// TestToggledRowsAreThoseOfANewLayout opens and closes rows of random traces, also in a window and with a query. Each
// answer must be equal to the answer of a handler without an earlier layout.
func TestToggledRowsAreThoseOfANewLayout(t *testing.T) {
	for seed := range uint64(hosttest.InCI(3, 10)) {
		v := viewOf(t, format.ET, randomTrace(seed, 200))
		r := rand.New(rand.NewPCG(seed, 2))
		for _, form := range []string{"depth=0", "depth=2", "depth=9", "depth=1&window=1400000000,1500000000", "depth=9&only=slow", "depth=1&least=50000000", "depth=3&root=4"} {
			h, open := serve(t, v, viewer.Options{}), make(map[int]bool)
			for range 15 {
				for range 1 + r.IntN(3) {
					row := 3 + r.IntN(200)
					open[row] = !open[row]
				}
				var x []string
				last := 0
				for row := range 204 {
					if open[row] {
						x = append(x, strconv.FormatInt(int64(row-last), 36))
						last = row
					}
				}
				path := "/api/rows?n=500&" + form + "&x=" + strings.Join(x, ".")
				got, want := ask(h, "GET", path).Body.String(), ask(serve(t, v, viewer.Options{}), "GET", path).Body.String()
				expect.MustEqual(t, got, want, "seed %d, %s", seed, path)
			}
		}
	}
}

// TestFirstHitsLookAtFewRows uses a trace with a hit after many rows without one.
func TestFirstHitsLookAtFewRows(t *testing.T) {
	all := []*format.TraceEntry{format.Root()}
	for range 70_000 {
		all = append(all, tracetest.Entry("common"))
	}
	all[len(all)-1].Metadata.Name = "rare"
	h := served(t, all)
	for word, want := range map[string]int{"common": 200, "rare": 0} {
		got := jsonOf[struct {
			Count int
			Known bool
		}](t, h, "/api/find?first=1&q="+word)
		if got.Count != want || !got.Known {
			t.Errorf("of %s there are at least %d hits, want %d", word, got.Count, want)
		}
	}
}
