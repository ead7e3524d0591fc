package viewer

import (
	"cmp"
	"hash/crc32"
	"iter"
	"math"
	"slices"
	"sync"

	"github.com/entrace-go/entrace/internal/analyze"
	"github.com/entrace-go/entrace/internal/core/mapping"
	"github.com/entrace-go/entrace/internal/read/columns"
	"github.com/entrace-go/entrace/view"
)

// isShown reports whether a row has a line in the tree. Hits, errors and the time axis count only shown rows. If a row
// has no line, for example a resource, the rows below it are shown in its place. A link is shown with its span. The
// last entry of a recorder has no line, because it only says that the file is complete.
func isShown(v *view.View, r view.Row) bool {
	switch v.Role(r) {
	case view.RoleSpan, view.RoleEvent, view.RoleLog, view.RoleOther:
		return true
	case view.RoleRecorder:
		return v.Name(r) != mapping.NameEnd && v.Name(r) != mapping.NameRecovered
	}
	return false
}

// The facts of a view are computed when they are first needed, and then kept.
type facts struct {
	hidden   func() *rankSet // rows that the tree does not show
	logs     func() *rankSet // log records and events
	errors   func() *rankSet // rows that are errors, as analyze.Top counts them
	whole    func() extent   // the extent of all rows
	services func() []string
	hues     func() map[string]int
	clocks   func() []skew
	times    func() [][2]int64
}

func factsOf(v *view.View, names []string) facts {
	ranks := func(is func(r view.Row, f view.Flags) bool) func() *rankSet {
		return sync.OnceValue(func() *rankSet { return ranksOf(v, is) })
	}
	return facts{
		hidden: ranks(func(r view.Row, f view.Flags) bool { return f.Role() != view.RoleFolded && !isShown(v, r) }),
		logs:   ranks(func(_ view.Row, f view.Flags) bool { return f.Role() == view.RoleLog || f.Role() == view.RoleEvent }),
		// The recorder's own entries are not errors: the recorder's entry about a crash only says what kind of file
		// this is.
		errors: ranks(func(r view.Row, f view.Flags) bool {
			return isShown(v, r) && f.IsError() && f.Role() != view.RoleRecorder
		}),
		whole:    sync.OnceValue(func() extent { return extentOf(v, v.Rows()) }),
		services: sync.OnceValue(func() []string { return servicesOf(v) }),
		hues:     sync.OnceValue(func() map[string]int { return huesOf(v) }),
		clocks:   sync.OnceValue(func() []skew { return clocksOf(v, names) }),
		times:    sync.OnceValue(func() [][2]int64 { return timesOf(v) }),
	}
}

// A skew is an [analyze.Clock] in the form that the page receives.
type skew struct {
	Name string `json:"name"`
	Late string `json:"late"` // the correction, in the form that the flag --clock accepts
}

// clocksOf returns the corrections of the clocks that seem to be wrong.
func clocksOf(v *view.View, names []string) []skew {
	list := []skew{}
	for _, c := range analyze.Clocks(v, names) {
		list = append(list, skew{c.Name, c.Text()})
	}
	return list
}

// An extent is the time range of some rows.
type extent struct {
	from, to int64 // the first and the last time; both are 0 if no row has a time
	timed    bool  // some row has a time
	spans    bool  // some row is a span
	newest   int   // the number of the file that has the last time
}

func extentOf(v *view.View, rows iter.Seq[view.Row]) extent {
	x := extent{from: math.MaxInt64, to: math.MinInt64}
	for r := range rows {
		if !isShown(v, r) {
			continue
		}
		x.spans = x.spans || v.Role(r) == view.RoleSpan
		if start, timed := v.Start(r); timed {
			took, _ := v.Duration(r)
			if end := max(start, start+int64(took)); end > x.to {
				x.to = end
				x.newest, _ = v.ID(r)
			}
			x.from, x.timed = min(x.from, start), true
		}
	}
	if !x.timed {
		x.from, x.to = 0, 0
	}
	return x
}

// servicesOf returns the names of the services, sorted by the number of their rows, the largest number first. The
// order decides the colors of the services.
func servicesOf(v *view.View) []string {
	counts := make(map[string]int)
	byResource := make(map[uint16]int)
	c := columns.Of(v)
	for k := range c.Blocks() {
		for _, code := range c.Block(k).Resource {
			byResource[code]++
		}
	}
	resources := c.Resources()
	for code, n := range byResource {
		if int(code) < len(resources) {
			if name := v.Service(view.Row(resources[code])); name != "" {
				counts[name] += n
			}
		}
	}
	names := v.Services()
	slices.SortStableFunc(names, func(a, b string) int { return cmp.Compare(counts[b], counts[a]) })
	return append([]string{}, names...)
}

// mostHues is the largest number of span names for which the server chooses a color.
const mostHues = 64

// huesOf returns color numbers for the first mostHues names of spans. The first ten names have different colors. A
// name keeps its color while a file grows.
func huesOf(v *view.View) map[string]int {
	c := columns.Of(v)
	metas := c.Metas()
	ofSpans := make([]bool, len(metas))
	for k := range c.Blocks() {
		b := c.Block(k)
		for i, code := range b.Meta {
			if int(code) < len(metas) && view.Flags(b.Flags[i]).Role() == view.RoleSpan {
				ofSpans[code] = true
			}
		}
	}
	hues, taken := make(map[string]int), [10]bool{}
	for code := 0; code < len(metas) && len(hues) < mostHues; code++ {
		name := metas[code].Name
		if _, known := hues[name]; known || !ofSpans[code] {
			continue
		}
		n := int(crc32.ChecksumIEEE([]byte(name)) % 10)
		for len(hues) < len(taken) && taken[n] {
			n = (n + 3) % 10
		}
		hues[name], taken[n] = n, true
	}
	return hues
}

// timesOf returns the first and the last time in each block. A span that has not ended counts with the time for
// which it has been open at least.
func timesOf(v *view.View) [][2]int64 {
	c := columns.Of(v)
	times := make([][2]int64, c.Blocks())
	for k := range times {
		first, last := int64(math.MaxInt64), int64(math.MinInt64)
		b := c.Block(k)
		for i, start := range b.Start {
			if start != columns.NoTime {
				took := b.Duration[i]
				if view.Flags(b.Flags[i]).Open() {
					d, _ := v.OpenFor(view.Row(b.First) + view.Row(i))
					took = int64(d)
				}
				first, last = min(first, start), max(last, start, start+max(0, took))
			}
		}
		times[k] = [2]int64{first, last}
	}
	return times
}
