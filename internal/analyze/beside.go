package analyze

import (
	"cmp"
	"maps"
	"slices"
	"sort"
	"sync"

	"github.com/entrace-go/entrace/internal/read/stat"
	"github.com/entrace-go/entrace/query"
	"github.com/entrace-go/entrace/view"
)

// A Beside describes the spans of one name that ran during a given span and belong to other requests.
type Beside struct {
	Row     view.Row `json:"row"` // the span of that name that ran longest during the given span
	Name    string   `json:"name"`
	Service string   `json:"service"`
	Count   int      `json:"count"`
	Open    bool     `json:"open"`
	Took    int64    `json:"took_nano"` // how long Row ran during the given span
	In      float64  `json:"in"`        // the share of the slow spans for which such a span ran when they began and for most of their time
	Others  float64  `json:"others"`    // the same share of the other spans

	typical int64   // the median of the durations of all spans of that name
	chance  bool    // the shares may differ by chance
	p       float64 // -log10 of the probability that chance does this, for one name
}

const (
	maxBeside    = 5
	besideLooked = 12   // the number of names that are compared
	besideSample = 4000 // the number of spans of each set that are compared
	besideFewest = 3    // the fewest slow spans, without the given one, that are compared
)

// RanBeside returns, by name, the spans of other requests that ran during the span r. The set "in" has the slow
// spans, including r, and the set "others" has other spans of the same operation. RanBeside returns a name if
// its spans ran more often during slow spans than during others. It also returns a name whose span has not
// ended.
func RanBeside(v *view.View, r view.Row, in, others view.Set[view.Row]) []Beside {
	return besidesOf(v).ran(r, in, others)
}

// besides compares which spans run at the same time as others. It is safe for concurrent use.
type besides struct {
	v     *view.View
	whole []view.Row // the outermost spans, in the order of the tree

	mu    sync.Mutex
	known map[operation]*coverage
}

func besidesOf(v *view.View) *besides {
	b := &besides{v: v, known: make(map[operation]*coverage)}
	t := v.Tree()
	for rank := 1; rank < t.Len(); {
		row := t.Row(rank)
		rank++
		if v.Role(row) == view.RoleSpan {
			b.whole, rank = append(b.whole, row), t.End(row)
		}
	}
	return b
}

func (b *besides) ran(r view.Row, in, others view.Set[view.Row]) []Beside {
	v, out := b.v, []Beside{}
	from, to, timed := during(v, r)
	if !timed || len(b.whole) == 0 {
		return out
	}
	known := make(map[operation]*Beside)
	own := b.outermost(r)
	for _, row := range b.whole {
		a, z, timed := during(v, row)
		if !timed || a > to || z < from || row == own {
			continue
		}
		key := operationOf(v, row)
		x := known[key]
		if x == nil {
			if len(known) > 10_000 {
				continue
			}
			x = &Beside{Name: key.name, Service: key.service}
			known[key] = x
		}
		x.Count++
		if took := min(z, to) - max(a, from); took > x.Took || x.Row == 0 {
			x.Took, x.Row, x.Open = took, row, v.Flags(row).Open()
		}
	}
	list := slices.SortedFunc(maps.Values(known), func(a, b *Beside) int {
		return cmp.Or(cmp.Compare(b.Took, a.Took), cmp.Compare(a.Row, b.Row))
	})
	list = list[:min(len(list), besideLooked)]
	// The spans in list were chosen because they ran during r, so r must not count.
	slow := slices.Clone(in)
	slow[r/64] &^= 1 << (r % 64)
	var tooks []int64
	for r := range slow.Sample(besideSample) {
		from, to, _ := during(v, r)
		tooks = append(tooks, to-from)
	}
	slices.Sort(tooks)
	length := int64(1)
	if len(tooks) > 0 {
		length = max(length, tooks[len(tooks)/2])
	}
	b.addShares(list, slow, others, length, len(known))
	list = slices.DeleteFunc(list, func(x *Beside) bool { return !x.Open && (x.chance || x.In <= x.Others) })
	slices.SortStableFunc(list, func(a, b *Beside) int { return cmp.Compare(b.In-b.Others, a.In-a.Others) })
	for _, x := range list[:min(len(list), maxBeside)] {
		out = append(out, *x)
	}
	return out
}

// coverages returns for each name when its spans run. It computes a coverage once and caches it.
func (b *besides) coverages(list []*Beside) (all []*coverage) {
	b.mu.Lock()
	defer b.mu.Unlock()
	missing := make(map[operation]*[2][]int64)
	for _, x := range list {
		if op := (operation{service: x.Service, name: x.Name}); b.known[op] == nil {
			missing[op] = new([2][]int64)
		}
	}
	for i := 0; i < len(b.whole) && len(missing) > 0; i++ {
		if m := missing[operationOf(b.v, b.whole[i])]; m != nil {
			if from, to, timed := during(b.v, b.whole[i]); timed {
				m[0], m[1] = append(m[0], from), append(m[1], to)
			}
		}
	}
	for op, m := range missing {
		var tooks []int64
		for i, from := range m[0] {
			tooks = append(tooks, m[1][i]-from)
		}
		c := coverageOf(m[0], m[1])
		c.typical = stat.Quantile(tooks, .5)
		b.known[op] = c
	}
	for _, x := range list {
		all = append(all, b.known[operation{service: x.Service, name: x.Name}])
	}
	return all
}

// outermost returns the outermost span above a row.
func (b *besides) outermost(r view.Row) view.Row {
	t := b.v.Tree()
	return b.whole[max(1, sort.Search(len(b.whole), func(i int) bool { return t.Rank(b.whole[i]) > t.Rank(r) }))-1]
}

// addShares sets the shares of the names in list for two sets of spans. A span of the sets counts for a name if a span
// of that name in another request was running when it began and for most of its time: a span that begins later is no
// reason why it is slow. If any overlap counted, long spans would count more often. For the same reason, a span that is
// shorter than length is treated as if it were that long. The parameter compared is the number of names from which list
// was chosen.
func (b *besides) addShares(list []*Beside, in, others view.Set[view.Row], length int64, compared int) {
	coverages, ran := b.coverages(list), make([][2]int64, len(list))
	var rows [2]int64
	for side, set := range [2]view.Set[view.Row]{in, others} {
		for r := range set.Sample(besideSample) {
			rows[side]++
			from, to, timed := during(b.v, r)
			if !timed {
				continue
			}
			to = max(to, from+length)
			own := operationOf(b.v, b.outermost(r))
			for i, x := range list {
				c, n := coverages[i], 1
				if own == (operation{service: x.Service, name: x.Name}) {
					n = 2 // the request itself has the name of x, so a second span must be running
				}
				before, began := c.until(n, from)
				if after, _ := c.until(n, to); began && 2*(after-before) > to-from {
					ran[i][side]++
				}
			}
		}
	}
	for i, x := range list {
		n := ran[i]
		x.typical = coverages[i].typical
		x.In, x.Others = float64(n[0])/float64(max(1, rows[0])), float64(n[1])/float64(max(1, rows[1]))
		x.p = stat.MoreOften(int(n[0]), int(rows[0]), int(n[1]), int(rows[1]))
		x.chance = rows[0] < besideFewest || query.IsChance(n, rows, compared)
	}
}

// A coverage says when the spans of a list are running.
type coverage struct {
	at   []int64 // the times at which spans begin or end, ascending
	open []int32 // the number of spans that run right after each time
	// before has for each time the total earlier time in which at least one span ran, and in which at least two ran.
	before  [][2]int64
	typical int64 // the median of the durations
}

// coverageOf returns the coverage of spans. It sorts the slices begins and ends.
func coverageOf(begins, ends []int64) *coverage {
	slices.Sort(begins)
	slices.Sort(ends)
	c := new(coverage)
	open, before := int32(0), [2]int64{}
	for i, k := 0, 0; k < len(ends); {
		at := ends[k]
		if i < len(begins) {
			at = min(at, begins[i])
		}
		for n := range before[:min(open, 2)] {
			before[n] += at - c.at[len(c.at)-1]
		}
		for ; i < len(begins) && begins[i] == at; i++ {
			open++
		}
		for ; k < len(ends) && ends[k] == at; k++ {
			open--
		}
		c.at, c.open, c.before = append(c.at, at), append(c.open, open), append(c.before, before)
	}
	return c
}

// until returns the total time before at in which at least n spans ran, where n is 1 or 2, and whether at least n spans
// run right after at.
func (c *coverage) until(n int, at int64) (before int64, runs bool) {
	k, _ := slices.BinarySearch(c.at, at+1)
	k--
	if k < 0 {
		return 0, false
	}
	before, runs = c.before[k][n-1], int(c.open[k]) >= n
	if runs {
		before += at - c.at[k]
	}
	return before, runs
}

// during returns the start and the end of a span.
func during(v *view.View, r view.Row) (from, to int64, timed bool) {
	from, timed = v.Start(r)
	took, _ := v.Lasted(r)
	return from, from + max(0, int64(took)), timed
}
