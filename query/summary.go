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

// A sum holds the counts and durations of the spans with one service and name.
type sum struct {
	service, name string
	n, errors     int64
	longest       int64
	total, self   int64
	durations     durations
}

// maxNames is the maximum number of pairs of service and name that get a line of their own in
// Summary.
var maxNames = 100_000

// maxKnown is the maximum number of pairs of a name and a resource that are found without a hash.
const maxKnown = 1 << 20

// otherNames is the name of the line for all other spans.
const otherNames = "(all other names)"

// A summary collects the sums for Summary.
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

// each calls fn for the spans in the blocks [from, to).
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

// minForRate is the minimum number of spans for which a rate is shown.
const minForRate = 20

// Summary returns a table of the spans of a set by service and name. Its columns are the number of
// spans, the number that failed, the number for each second of the trace if there are at least 20
// spans, quantiles of their durations, the longest duration, and the sums of the durations and of
// the self times. The first 100,000 names have a line each. All other names share one line, without
// quantiles. The period of o, which may be nil, takes the place of the whole trace.
func Summary(ctx context.Context, v *view.View, rows view.Set[view.Row], o *Options) (*Table, error) {
	y := &summary{v: v, read: v.NewReader(), rows: rows, byName: make(map[[2]string]*sum), width: len(v.Columns().Resources())}
	y.known = make([]*sum, min(y.width*len(v.Columns().Metas()), maxKnown))
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
	// For sums with many durations, a second pass collects the durations that may be a quantile.
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
		if o != nil && !o.From.IsZero() {
			first = max(first, o.From.UnixNano())
		}
		if o != nil && !o.To.IsZero() {
			last = min(last, o.To.UnixNano())
		}
		seconds = float64(last-first) / 1e9
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
