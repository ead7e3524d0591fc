package query

import (
	"cmp"
	"math"
	"slices"
	"strings"

	"github.com/entrace-go/entrace/internal/core/mapping"
	"github.com/entrace-go/entrace/view"
)

// compareTop is the maximum number of values that compare() shows for an attribute.
const compareTop = 10

// compareSets compares how often each value of each attribute occurs in the rows that a filter selects and in the
// other rows. The table shows percentages of the rows, the largest difference first. It omits attributes with the
// same value in all rows, and attributes with a different value in nearly every row.
func (m *machine) compareSets(a *stageAggregate, rows view.Set[view.Row]) (*Table, error) {
	chosen, err := m.set(a.set)
	if err != nil {
		return nil, err
	}
	t := &Table{Columns: []string{"attribute", "value", "selection %", "baseline %", "difference", "selection", "baseline"}}
	all := counter{ctx: m.ctx, v: m.v, sets: [2]view.Set[view.Row]{m.v.NewSet(), m.v.NewSet()}}
	spans := counter{ctx: m.ctx, v: m.v, sets: [2]view.Set[view.Row]{m.v.NewSet(), m.v.NewSet()}}
	for r := range rows.All() {
		side := 1
		if chosen.Has(r) {
			side = 0
		}
		all.sets[side].Add(r)
		if m.v.Role(r) == view.RoleSpan {
			spans.sets[side].Add(r)
		}
	}
	c := &Contrast{In: int64(all.sets[0].Len()), Others: int64(all.sets[1].Len())}
	if c.In == 0 || c.Others == 0 {
		which := "none"
		if c.Others == 0 {
			which = "all"
		}
		m.more = append(m.more, Hint{Text: "compare({…}) selects " + which + " of the rows: there is nothing to compare"})
		return t, nil
	}
	for _, key := range m.columns.Keys() {
		name, isUser := mapping.UserName(key.Name)
		if !isUser {
			continue
		}
		// The row's own attribute, not the attribute of the resource.
		own := &field{definition: &definition{user: true}, name: name}
		counts := new(valueCounts)
		err = all.values(m, own, counts)
		if err != nil {
			return nil, err
		}
		if counts.comparable(c.In + c.Others) {
			t.Lines = append(t.Lines, c.compared(name, counts)...)
		}
	}
	// The attributes of log records themselves are compared above, so compare only attributes of rows below spans
	// here.
	names, _, err := contrastNames(m.ctx, [2]Run{{m.v, spans.sets[0]}, {m.v, spans.sets[1]}}, c)
	if err != nil {
		return nil, err
	}
	for _, name := range names {
		attribute, isEvent := strings.CutPrefix(name, eventScope)
		if !isEvent {
			continue
		}
		counts := new(valueCounts)
		err = spans.event(m, attribute, counts)
		if err != nil {
			return nil, err
		}
		t.Lines = append(t.Lines, c.compared(name, counts)...)
	}
	slices.SortFunc(t.Lines, byDifference)
	return t, nil
}

// compared returns the lines of compare() for the values of an attribute that differ most.
func (c *Contrast) compared(name string, counts *valueCounts) (lines [][]Value) {
	share := func(n, of int64) float64 { return math.Round(1000*float64(n)/float64(of)) / 10 }
	for i, n := range counts.n {
		in, others := share(n[0], c.In), share(n[1], c.Others)
		difference := floatValue(math.Round(10*(in-others)) / 10)
		lines = append(lines, []Value{stringValue(name), counts.values[i], floatValue(in), floatValue(others), difference, intValue(n[0]), intValue(n[1])})
	}
	slices.SortFunc(lines, byDifference)
	lines = lines[:min(len(lines), compareTop)]
	return slices.DeleteFunc(lines, func(line []Value) bool { return line[4].float() == 0 })
}

// byDifference orders lines of compare(): the largest difference first.
func byDifference(x, y []Value) int {
	dx, dy := x[2].float()-x[3].float(), y[2].float()-y[3].float()
	return cmp.Or(cmp.Compare(math.Abs(dy), math.Abs(dx)), cmp.Compare(dy, dx), Compare(x[0], y[0]), Compare(x[1], y[1]))
}
