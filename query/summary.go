package query

import (
	"cmp"
	"context"
	"math/bits"
	"slices"
	"strings"
	"sync"

	"github.com/entrace-go/entrace/internal/read/columns"
	"github.com/entrace-go/entrace/view"
)

// A sum holds the counts and durations of the spans with one service and name.
type sum struct {
	service, name string
	n, errors     int64
	longest       int64
	total, self   int64
	durations     durations
	begun         []uint32 // in each period, for Spread
}

// maxNames is the maximum number of pairs of service and name that get a line of their own in
// Summary.
var maxNames = 100_000

// maxKnown is the maximum number of pairs of a name and a resource that are found without a hash.
const maxKnown = 1 << 20

// otherNames is the name of the line for all other spans.
const otherNames = "(all other names)"

// A summary collects sums of spans in one goroutine.
type summary struct {
	v      *view.View
	read   *view.Reader
	rows   view.Set[view.Row]
	sums   []*sum
	byName map[[2]string]*sum
	known  []*sum // by meta and resource
	width  int    // resources
	others *sum
}

func newSummary(v *view.View, rows view.Set[view.Row]) *summary {
	width := len(v.Columns().Resources())
	return &summary{
		v: v, read: v.NewReader(), rows: rows, byName: make(map[[2]string]*sum),
		known: make([]*sum, min(width*len(v.Columns().Metas()), maxKnown)), width: width,
	}
}

// of returns the sum to which row i of a block belongs.
func (y *summary) of(b *columns.Block, i int) *sum {
	code := len(y.known)
	if b.Meta[i] != columns.Unknown && b.Resource[i] != columns.Unknown {
		code = int(b.Meta[i])*y.width + int(b.Resource[i])
	}
	isKnown := code < len(y.known)
	if isKnown && y.known[code] != nil {
		return y.known[code]
	}
	r := view.Row(b.First) + view.Row(i)
	s := y.named(y.v.Service(r), y.read.Name(r))
	if isKnown {
		y.known[code] = s
	}
	return s
}

// named returns the sum of a service and a name.
func (y *summary) named(service, name string) *sum {
	key := [2]string{service, name}
	s := y.byName[key]
	switch {
	case s != nil:
	case len(y.sums) < maxNames:
		s = &sum{service: service, name: name}
		y.byName[key] = s
		y.sums = append(y.sums, s)
	default:
		if y.others == nil {
			y.others = &sum{name: otherNames}
		}
		s = y.others
	}
	return s
}

// each calls fn for the spans of a block.
func (y *summary) each(k int, fn func(s *sum, b *columns.Block, i int)) {
	b := y.v.Columns().Block(k)
	for w, word := range y.rows[k*words64 : (k+1)*words64] {
		for ; word != 0; word &= word - 1 {
			if i := w*64 + bits.TrailingZeros64(word); view.Flags(b.Flags[i]).Role() == view.RoleSpan {
				fn(y.of(&b, i), &b, i)
			}
		}
	}
}

// merge adds the sums of other.
func (y *summary) merge(other *summary) {
	for _, x := range other.sums {
		s := y.named(x.service, x.name)
		s.n, s.errors, s.longest = s.n+x.n, s.errors+x.errors, max(s.longest, x.longest)
		s.total, s.self = s.total+x.total, s.self+x.self
		s.durations.merge(&x.durations)
	}
	if other.others != nil {
		y.others = other.others
	}
}

// summarize returns the sums of all blocks, which each passes to several goroutines.
func summarize(ctx context.Context, v *view.View, rows view.Set[view.Row], each func(context.Context, func() func(k int)) error) (*summary, error) {
	parents, err := parentsOf(ctx, v)
	if err != nil {
		return nil, err
	}
	parts, err := columns.Collect(ctx, each, func() (*summary, func(k int)) {
		y, self := newSummary(v, rows), selfTimes{v: v, parents: parents}
		return y, func(k int) {
			part := selfRows / columns.BlockRows
			if k%part != 0 {
				return // the goroutine that has the first block of a part has all of it
			}
			if self.compute(ctx, view.Row(k*columns.BlockRows)) != nil {
				return // the error is that of ctx
			}
			for end := min(k+part, v.Columns().Blocks()); k < end; k++ {
				y.each(k, func(s *sum, b *columns.Block, i int) {
					s.n++
					if view.Flags(b.Flags[i]).IsError() {
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
		}
	})
	if err != nil {
		return nil, err
	}
	all := parts[0]
	for _, y := range parts[1:] {
		all.merge(y)
	}
	return all, nil
}

// collectWanted makes a second pass for the sums with many durations. It collects those that may be a quantile.
func (y *summary) collectWanted(ctx context.Context) error {
	again := false
	for _, s := range y.sums {
		again = s.durations.want(summaryQuantiles) || again
	}
	if !again {
		return nil
	}
	var mu sync.Mutex
	return y.v.Columns().Each(ctx, func() func(k int) {
		x := newSummary(y.v, y.rows)
		x.byName, x.sums, x.others = y.byName, y.sums, y.others // which are complete
		var list []wanted
		return func(k int) {
			list = list[:0]
			x.each(k, func(s *sum, b *columns.Block, i int) {
				if d := b.Duration[i]; d != columns.NoDuration {
					list = s.durations.spread.addWanted(list, d)
				}
			})
			mu.Lock()
			defer mu.Unlock()
			keepWanted(list)
		}
	})
}

// minForRate is the minimum number of spans for which a rate is shown.
const minForRate = 20

// Summary returns a table of the spans of a set by service and name. Its columns are the number of
// spans, the number that failed, the number for each second of the trace if there are at least 20
// spans, quantiles of their durations, the longest duration, and the sums of the durations and of
// the self times. The first 100,000 names have a line each. All other names share one line, without
// quantiles. The period of o, which may be nil, takes the place of the whole trace.
func Summary(ctx context.Context, v *view.View, rows view.Set[view.Row], o *Options) (*Table, error) {
	y, err := summarize(ctx, v, rows, v.Columns().Each)
	if err == nil && y.others != nil { // which names are the first?
		y, err = summarize(ctx, v, rows, func(ctx context.Context, start func() func(k int)) error {
			fn := start()
			for k := range v.Columns().Blocks() {
				fn(k)
			}
			return ctx.Err()
		})
	}
	if err != nil {
		return nil, err
	}
	if y.others != nil {
		y.sums = append(y.sums, y.others)
	}
	if err := y.collectWanted(ctx); err != nil {
		return nil, err
	}
	seconds := 0.0
	if first, last, ok := Span(v); ok {
		from, to := o.Period()
		seconds = float64(min(last, to)-max(first, from)) / 1e9
	}
	slices.SortFunc(y.sums, func(a, b *sum) int {
		return cmp.Or(strings.Compare(a.service, b.service), strings.Compare(a.name, b.name))
	})
	t := &Table{Columns: []string{"service", "name", "count", "errors", "rate/s", "p50", "p95", "p99", "max", "total", "self"}, groups: 2, spans: true}
	for _, s := range y.sums {
		line := make([]Value, 5, len(t.Columns))
		line[0], line[1], line[2], line[3] = stringValue(s.service), stringValue(s.name), intValue(s.n), intValue(s.errors)
		if s.n >= minForRate && seconds > 0 {
			line[4] = floatValue(float64(s.n) / seconds)
		}
		if s.durations.len() == 0 && s != y.others {
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

// summaryQuantiles are the quantiles that Summary shows.
var summaryQuantiles = []float64{0.5, 0.95, 0.99}

// Sort sorts the lines by a column. The argument is the name of the column or the beginning of the
// name. Numbers are sorted with the largest first, texts in ascending order.
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
