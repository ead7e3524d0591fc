package query

import (
	"context"
	"math/bits"
	"slices"
	"strings"

	"github.com/entrace-go/entrace/view"
)

// Summary returns a table of the spans of a set by service and name: how many there are, how
// many failed, how many began a second between the first and the last start, quantiles of their
// durations, the longest, the sum of all, and the sum of their self times.
func Summary(ctx context.Context, v *view.View, rows Set) (*Table, error) {
	type sum struct {
		service, name string
		n, errors     int64
		first, last   int64
		total, self   int64
		took          []int64
	}
	v.Tree() // for the self times
	sums := make(map[[2]string]*sum)
	known := make(map[[2]uint16]*sum) // by meta and resource
	for k := range v.Blocks() {
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		b := v.Block(k)
		for w, word := range rows[k*words64 : (k+1)*words64] {
			for ; word != 0; word &= word - 1 {
				i := w*64 + bits.TrailingZeros64(word)
				f := view.Flags(b.Flags[i])
				if f.Role() != view.RoleSpan {
					continue
				}
				r := b.First + view.Row(i)
				code := [2]uint16{b.Meta[i], b.Resource[i]}
				s := known[code]
				if s == nil || code[0] == view.Unknown || code[1] == view.Unknown {
					key := [2]string{v.Service(r), v.Name(r)}
					if s = sums[key]; s == nil {
						s = &sum{service: key[0], name: key[1], first: b.Start[i], last: b.Start[i]}
						sums[key] = s
					}
					known[code] = s
				}
				s.n++
				if IsError(f) {
					s.errors++
				}
				s.first, s.last = min(s.first, b.Start[i]), max(s.last, b.Start[i])
				if d := b.Duration[i]; d != view.NoDuration {
					self, _ := v.SelfTime(r)
					s.took = append(s.took, d)
					s.total += d
					s.self += int64(self)
				}
			}
		}
	}
	t := &Table{Columns: []string{"service", "name", "count", "errors", "rate/s", "p50", "p95", "p99", "max", "total", "self"}, groups: 2}
	for _, s := range sums {
		line := []Value{stringValue(s.service), stringValue(s.name), intValue(s.n), intValue(s.errors), {}}
		if s.last > s.first {
			line[4] = floatValue(float64(s.n) / (float64(s.last-s.first) / 1e9))
		}
		if len(s.took) == 0 {
			t.Lines = append(t.Lines, append(line, Value{}, Value{}, Value{}, Value{}, Value{}, Value{}))
			continue
		}
		for _, q := range []float64{0.5, 0.95, 0.99, 1} {
			line = append(line, durationValue(Quantile(s.took, q)))
		}
		t.Lines = append(t.Lines, append(line, durationValue(s.total), durationValue(s.self)))
	}
	slices.SortFunc(t.Lines, func(a, b []Value) int {
		if n := strings.Compare(a[0].s, b[0].s); n != 0 {
			return n
		}
		return strings.Compare(a[1].s, b[1].s)
	})
	return t, nil
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
		return orderIn(a[at].kind != KindString || b[at].kind != KindString, a[at], b[at])
	})
	return nil
}
