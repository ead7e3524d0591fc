package query

import (
	"context"
	"fmt"
	"strings"

	"github.com/entrace-go/entrace/view"
)

// Where returns a filter for the values of the groups in a line of t. It does not include the filter of the query
// that computed t. It returns "" if t has no groups, or if no filter can select the rows, for example because a
// value is NaN.
func (t *Table) Where(line []Value) string {
	var all []string
	for i, v := range line[:min(t.groups, len(line))] {
		name := t.Columns[i]
		if name == "service" && v.kind == kindString && v.s == "" {
			v = Value{} // Summary replaces a missing service by ""
		}
		part := where(name, v)
		if part == "" {
			return ""
		}
		all = append(all, part)
	}
	if len(all) == 0 && len(line) > 1 && t.Columns[0] == "attribute" && t.Columns[1] == "value" { // t is a table of compare()
		return where("."+attributeName(line[0].s), line[1])
	}
	return strings.Join(all, " && ")
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
