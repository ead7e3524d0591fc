package query

import (
	"context"
	"fmt"
	"strings"

	"github.com/entrace-go/entrace/view"
)

// Where returns a filter that selects the rows of a line of t, without the filter of the query that computed t. It
// returns "" if t has no groups, or if no filter can select the rows, for example if a value is NaN.
func (t *Table) Where(line []Value) string {
	var all []string
	for i, v := range line[:min(t.groups, len(line))] {
		name := t.Columns[i]
		if name == "service" && v.kind == kindString && v.s == "" {
			v = Value{} // as Summary has it
		}
		part := where(name, v)
		if part == "" {
			return ""
		}
		all = append(all, part)
	}
	if len(all) == 0 && len(line) > 1 && t.Columns[0] == "attribute" && t.Columns[1] == "value" { // of compare()
		return where("."+attributeName(line[0].s), line[1])
	}
	return strings.Join(all, " && ")
}

// Spread counts when the rows of each line of t begin. It returns, for each line, the number of rows that begin in
// each of the given number of periods. The periods are every nanoseconds long, and the first begins at from. rows
// are the rows of which t was computed. The key of a line is its Where. The result is empty if t has no groups.
func (t *Table) Spread(ctx context.Context, v *view.View, rows view.Set[view.Row], from, every int64, periods int) (map[string][]uint32, error) {
	out := make(map[string][]uint32)
	if t.groups == 0 {
		return out, nil
	}
	every = max(1, every)
	of := fmt.Sprintf("start >= %d", from)
	if to := from + every*int64(periods); to > from { // the end of the periods fits into an int64
		of += fmt.Sprintf(" && start < %d", to)
	}
	if t.spans {
		of += " && entry:role = span"
	}
	q, err := Parse(fmt.Sprintf("{ %s } | count() by(%s, bucket(start - %d, %dns))", of, strings.Join(t.Columns[:t.groups], ", "), from, every))
	if err != nil {
		return nil, err
	}
	m := q.machine(ctx, v)
	begun, err := m.where(q.root.set.(*filter).x, rows) //nolint:forcetypeassert // it is one
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
