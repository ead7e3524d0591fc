package query

import (
	"cmp"
	"context"
	"math/bits"
	"slices"
	"strings"

	"github.com/entrace-go/entrace/internal/columns"
	"github.com/entrace-go/entrace/view"
)

// A sum holds counts and durations of the spans of one service and name.
type sum struct {
	service, name string
	n, errors     int64
	longest       int64
	total, self   int64
	durations     durations
}

// maxNames is how many services and names Summary tells apart, the first ones of the file.
var maxNames = 100_000

// otherNames is the name of the line for all others.
const otherNames = "(all other names)"

// A summary collects sums.
type summary struct {
	v      *view.View
	read   *view.Reader
	rows   view.Set[view.Row]
	sums   []*sum
	byName map[[2]string]*sum
	known  map[[2]uint16]*sum // by meta and resource
	others *sum
}

// of returns the sum of row i of a block.
func (y *summary) of(b *columns.Block, i int) *sum {
	code := [2]uint16{b.Meta[i], b.Resource[i]}
	isKnown := code[0] != columns.Unknown && code[1] != columns.Unknown
	if s := y.known[code]; isKnown && s != nil {
		return s
	}
	r := view.Row(b.First) + view.Row(i)
	key := [2]string{y.v.Service(r), y.read.Name(r)}
	s := y.byName[key]
	switch {
	case s != nil:
	case len(y.sums) < maxNames:
		s = &sum{service: key[0], name: key[1]}
		y.byName[key] = s
		y.sums = append(y.sums, s)
	default:
		if y.others == nil {
			y.others = &sum{name: otherNames}
		}
		s = y.others
	}
	if isKnown {
		y.known[code] = s
	}
	return s
}

// each calls fn for the spans of the blocks from one to another.
func (y *summary) each(from, to int, fn func(s *sum, b *columns.Block, i int)) {
	for k := from; k < to; k++ {
		b := y.v.Columns().Block(k)
		for w, word := range y.rows[k*words64 : (k+1)*words64] {
			for ; word != 0; word &= word - 1 {
				if i := w*64 + bits.TrailingZeros64(word); view.Flags(b.Flags[i]).Role() == view.RoleSpan {
					fn(y.of(&b, i), &b, i)
				}
			}
		}
	}
}

// minForRate is how many spans there must be for a rate.
const minForRate = 20

// Summary returns a table of the spans of a set by service and name: how many there are, how
// many failed, how many there are for each second of the trace if they are 20 or more, quantiles
// of their durations, the longest, the sum of all, and the sum of their self times. The first
// 100,000 names have a line each, and all others one together, without quantiles.
func Summary(ctx context.Context, v *view.View, rows view.Set[view.Row]) (*Table, error) {
	y := &summary{v: v, read: v.NewReader(), rows: rows, byName: make(map[[2]string]*sum), known: make(map[[2]uint16]*sum)}
	self := selfTimes{v: v}
	for k := 0; k < v.Columns().Blocks(); k += selfRows / columns.BlockRows {
		if err := self.compute(ctx, view.Row(k*columns.BlockRows)); err != nil {
			return nil, err
		}
		y.each(k, min(k+selfRows/columns.BlockRows, v.Columns().Blocks()), func(s *sum, b *columns.Block, i int) {
			s.n++
			if IsError(view.Flags(b.Flags[i])) {
				s.errors++
			}
			if d := b.Duration[i]; d != columns.NoDuration {
				if s != y.others {
					s.durations.add(d)
				}
				s.longest = max(s.longest, d)
				s.total += d
				s.self += d - self.of(view.Row(b.First)+view.Row(i))
			}
		})
	}
	if y.others != nil {
		y.sums = append(y.sums, y.others)
	}
	// Of many durations, those that may be a quantile are looked at once more.
	again := false
	for _, s := range y.sums {
		again = s.durations.want(summaryQuantiles) || again
	}
	if again {
		y.each(0, v.Columns().Blocks(), func(s *sum, b *columns.Block, i int) {
			if d := b.Duration[i]; d != columns.NoDuration && s.durations.spread != nil {
				s.durations.addWanted(d)
			}
		})
	}
	seconds := 0.0
	if first, last, ok := Span(v); ok {
		seconds = float64(last-first) / 1e9
	}
	slices.SortFunc(y.sums, func(a, b *sum) int {
		return cmp.Or(strings.Compare(a.service, b.service), strings.Compare(a.name, b.name))
	})
	t := &Table{Columns: []string{"service", "name", "count", "errors", "rate/s", "p50", "p95", "p99", "max", "total", "self"}, groups: 2}
	for _, s := range y.sums {
		line := make([]Value, 5, len(t.Columns))
		line[0], line[1], line[2], line[3] = stringValue(s.service), stringValue(s.name), intValue(s.n), intValue(s.errors)
		if s.n >= minForRate && seconds > 0 {
			line[4] = floatValue(float64(s.n) / seconds)
		}
		if s.durations.n == 0 && s != y.others {
			t.Lines = append(t.Lines, line[:len(t.Columns)])
			continue
		}
		for _, q := range summaryQuantiles {
			if s == y.others {
				line = append(line, Value{})
				continue
			}
			line = append(line, durationValue(s.durations.quantile(q)))
		}
		t.Lines = append(t.Lines, append(line, durationValue(s.longest), durationValue(s.total), durationValue(s.self)))
	}
	return t, nil
}

// summaryQuantiles are those that Summary has.
var summaryQuantiles = []float64{0.5, 0.95, 0.99}

// maxTook is how many durations are kept one by one.
var maxTook = 1 << 10

// durations are many durations of which quantiles are computed: all of them up to maxTook, then
// how many are alike.
type durations struct {
	n      int64
	all    []int64
	spread *spread
}

func (d *durations) add(x int64) {
	d.n++
	switch {
	case d.spread != nil:
		d.spread.counts[spreadBucket(x)]++
	case len(d.all) < maxTook:
		d.all = append(d.all, x)
	default:
		d.spread = new(spread)
		for _, y := range append(d.all, x) {
			d.spread.counts[spreadBucket(y)]++
		}
		d.all = nil
	}
}

// want says which quantiles are asked for, and reports whether the durations must be added once
// more for them, with addWanted.
func (d *durations) want(qs []float64) bool {
	if d.spread == nil {
		return false
	}
	for _, q := range qs {
		bucket, _ := d.spread.find(rank(q, d.n))
		d.spread.wanted[bucket] = true
	}
	return true
}

func (d *durations) addWanted(x int64) {
	if d.spread.wanted[spreadBucket(x)] {
		d.spread.values = append(d.spread.values, x)
	}
}

func (d *durations) quantile(q float64) int64 {
	if d.spread != nil {
		return d.spread.quantile(q, d.n)
	}
	return quantile(d.all, q)
}

// Sort sorts the lines by a column, of whose name the beginning is enough: numbers with the
// largest first, texts in their order.
func (t *Table) Sort(column string) error {
	at := slices.Index(t.Columns, column)
	if at < 0 {
		at = slices.IndexFunc(t.Columns, func(c string) bool { return strings.HasPrefix(c, column) })
	}
	if at < 0 {
		return &Error{Text: "the table has no column " + column, Hint: "its columns are " + strings.Join(t.Columns, ", ")}
	}
	slices.SortStableFunc(t.Lines, func(a, b []Value) int {
		return orderIn(a[at].kind != kindString || b[at].kind != kindString, a[at], b[at])
	})
	return nil
}
