package analyze_test

import (
	"cmp"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/entrace-go/entrace/format"
	"github.com/entrace-go/entrace/internal/analyze"
	"github.com/entrace-go/entrace/internal/testkit/expect"
	"github.com/entrace-go/entrace/internal/testkit/querytest"
	"github.com/entrace-go/entrace/view"
)

// TestRepeats compares the repeats of random traces with the repeats that a simple model counts.
func TestRepeats(t *testing.T) {
	some := 0
	for seed := range uint64(20) {
		entries, parents := shop(rand.New(rand.NewPCG(seed, 7)), 400), []uint32{}
		for i, e := range entries { // give a few spans many children
			if e.Parent > 2 {
				e.Parent = parents[int(e.Parent)%len(parents)]
			} else if _, ok := e.Attribute(format.AttrSpanID); ok && len(parents) < 8 {
				parents = append(parents, uint32(i))
			}
		}
		v := viewOf(t, entries)
		rows := everything(t, v)
		if seed%2 == 1 {
			r := querytest.Result(t, v, "duration > 3ns || level >= info")
			rows = r.Rows
		}
		type key struct {
			below         view.Row
			service, name string
		}
		times, took := make(map[key]int), make(map[key]int64)
		for r := range v.Rows() {
			if up := v.Parent(r); rows.Has(r) && v.Role(r) == view.RoleSpan && v.Role(up) == view.RoleSpan {
				k := key{up, v.Service(r), v.Name(r)}
				d, _ := v.Duration(r)
				times[k]++
				took[k] += int64(d)
			}
		}
		all := make(map[[3]string]*analyze.Repeat)
		for _, k := range slices.SortedFunc(maps.Keys(times), func(a, b key) int { return cmp.Compare(a.below, b.below) }) {
			if times[k] < 5 {
				continue
			}
			id := [3]string{k.service, k.name, v.Name(k.below)}
			if all[id] == nil {
				all[id] = &analyze.Repeat{Service: k.service, Name: k.name, Of: id[2]}
			}
			x := all[id]
			x.Spans, x.Calls, x.Time = x.Spans+1, x.Calls+times[k], x.Time+took[k]
			if times[k] > x.MostCalls {
				x.Most, x.MostCalls = k.below, times[k]
			}
		}
		o, err := analyze.Top(t.Context(), v, rows, 1000, nil)
		must(t, err)
		some += len(all)
		for i, got := range o.Repeats {
			got.Text = ""
			if want := all[[3]string{got.Service, got.Name, got.Of}]; want == nil || got != *want {
				t.Errorf("seed %d: got %+v, want %+v", seed, got, want)
			}
			if i > 0 && got.Time > o.Repeats[i-1].Time {
				t.Errorf("seed %d: %d is before %d", seed, o.Repeats[i-1].Time, got.Time)
			}
		}
		expect.Equal(t, len(o.Repeats), len(all), "seed %d: repeats", seed)
	}
	if some < 20 {
		t.Fatalf("there are only %d repeats in all traces", some)
	}
}

// TestRepeatsHaveTexts checks that neither calls with different queries nor waits count as repeats, and that a repeat
// has the common pattern of its queries.
func TestRepeatsHaveTexts(t *testing.T) {
	all := []*format.TraceEntry{format.Root()}
	below := func(parent uint32, name, attribute string, texts ...string) uint32 {
		for _, text := range texts {
			n := len(all)
			e := span(parent, fmt.Sprint(n), name, int64(n), int64(n))
			if attribute != "" {
				e.Add(attribute, format.StringValue(text))
			}
			all = append(all, e)
		}
		return uint32(len(all) - 1)
	}
	list := below(0, "list", "", "")
	below(list, "query", "db.query.text", "SELECT *\n FROM prices  WHERE id = 1", "SELECT * FROM prices WHERE id = 2", "SELECT * FROM prices WHERE id = 3", "SELECT * FROM prices WHERE id = 4", "BEGIN", "SELECT * FROM prices WHERE id = 5")
	page := below(0, "page", "", "")
	below(page, "query", "db.statement", "a", "b", "c", "d", "e", "f")
	below(page, "GET", "url.full", "http://tax/1", "http://tax/2", "http://tax/3", "http://tax/4")
	job := below(0, "job", "", "")
	below(job, "work", "", "", "", "", "", "")
	below(below(0, "goroutine", "", ""), "net", "wait.reason", "network", "network", "network", "network", "network")
	v := viewOf(t, all)
	o, err := analyze.Top(t.Context(), v, everything(t, v), 5, nil)
	must(t, err)
	got := fmt.Sprint(o.Repeats)
	if want := "[{ work job  1 5 110 19 5} { query list SELECT * FROM prices WHERE id = <number> 1 5 21 1 5}]"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}
