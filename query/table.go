package query

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/entrace-go/entrace/view"
)

// A Table is the result of aggregates. It has one line for each group.
type Table struct {
	Columns []string
	Lines   [][]Value
	groups  int  // the number of columns that come from by(…)
	spans   bool // the table counts spans only
}

// Sort sorts the lines by the column with the given name or prefix of a name. Numbers are sorted in descending
// order, texts in ascending order.
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

// Spread counts the rows of each line of t by start time, in periods of equal length. The parameter every is the
// length of a period in nanoseconds, and the first period begins at from. The set rows must be the one from which
// t was computed. The result maps the Where of each line to its counts, one for each period. It is empty if t has
// no groups.
func (t *Table) Spread(ctx context.Context, v *view.View, rows view.Set[view.Row], from, every int64, periods int) (map[string][]uint32, error) {
	out := make(map[string][]uint32)
	if t.groups == 0 {
		return out, nil
	}
	every = max(1, every)
	var period []string // without conditions that are true for all rows, because they take time
	first, last, _ := v.Period()
	if first < from {
		period = append(period, fmt.Sprintf("start >= %d", from))
	}
	if to := from + every*int64(periods); from < to && to <= last { // no overflow
		period = append(period, fmt.Sprintf("start < %d", to))
	}
	q, err := Parse(fmt.Sprintf("{ %s } | count() by(%s, bucket(start - %d, %dns))", strings.Join(period, " && "), strings.Join(t.Columns[:t.groups], ", "), from, every))
	if err != nil {
		return nil, err
	}
	m := q.machine(ctx, v)
	n, err := m.filter(q.root.set.(*filter).x) //nolint:forcetypeassert // it is one
	if err != nil {
		return nil, err
	}
	if t.spans {
		m.roles = 1 << view.RoleSpan
	}
	begun, err := m.refine(n, rows)
	if err != nil {
		return nil, err
	}
	a := q.root.stages[0].(*stageAggregate) //nolint:forcetypeassert // it is one
	counts, err := m.table([]*stageAggregate{a}, a.by, begun)
	if err != nil {
		return nil, err
	}
	for _, line := range counts.Lines {
		at, timed := line[t.groups].number()
		n, _ := line[t.groups+1].number()
		i := int(at / float64(every))
		if !timed || i < 0 || i > periods {
			continue
		}
		key := t.Where(line)
		if out[key] == nil {
			out[key] = make([]uint32, periods)
		}
		out[key][min(i, periods-1)] += uint32(n)
	}
	return out, nil
}
