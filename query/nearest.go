package query

import (
	"context"
	"fmt"
	"strings"

	"github.com/entrace-go/entrace/view"
)

// A Near is a row that fulfills most conditions of a query.
type Near struct {
	Row view.Row
	// Failed are the conditions that the row does not fulfill, with the row's value, as in ".n > 3: it is 2".
	Failed []string
}

// Nearest returns up to n rows that fulfill the largest number of the query's conditions, but not all. The
// conditions are the operands of && in the query's last {…}. The error is the error of ctx, or an [*Error].
func (q *Query) Nearest(ctx context.Context, v *view.View, n int) ([]Near, error) {
	f := lastFilter(q.root.set)
	if f == nil || f.x == nil {
		return nil, nil
	}
	m := q.machine(ctx, v)
	type condition struct {
		text  string
		holds view.Set[view.Row]
		value eval // nil if the condition has no single value
	}
	var conditions []condition
	for _, x := range conjuncts(f.x, nil) {
		c := condition{text: conditionText(x)}
		var err error
		c.holds, err = m.set(&filter{x})
		if err != nil {
			return nil, err
		}
		if x, ok := x.(*compare); ok {
			c.value, err = m.value(x.a)
			if err != nil {
				return nil, err
			}
		}
		conditions = append(conditions, c)
	}
	var best []view.Row
	most := 0
	for r := range v.Rows() {
		hold := 0
		for i := range conditions {
			if conditions[i].holds.Has(r) {
				hold++
			}
		}
		if !m.selectable(v.Flags(r)) || hold < most || hold == len(conditions) {
			continue
		}
		if hold > most {
			best, most = best[:0], hold
		}
		best = append(best, r)
	}
	var near []Near
	e := &env{m: m, read: v.NewReader()}
	for _, r := range best[:min(n, len(best))] {
		e.row = r
		row := Near{Row: r}
		for i := range conditions {
			of := &conditions[i]
			if of.holds.Has(r) {
				continue
			}
			text := of.text
			if of.value != nil {
				if value := of.value(e); value.kind == kindNil {
					text += ": it has none"
				} else {
					text += fmt.Sprint(": it is ", value)
				}
			}
			row.Failed = append(row.Failed, text)
		}
		near = append(near, row)
	}
	return near, nil
}

// A Condition is a condition of a query, with the number of rows that it selects alone.
type Condition struct {
	Text string
	Rows int
}

// Alone returns the conditions of the query, if there are several. The conditions are the operands of && in the
// filters of the query. A nil o means the defaults. The error is the error of ctx, or an [*Error].
func (q *Query) Alone(ctx context.Context, v *view.View, o *Options) ([]Condition, error) {
	var conditions []expr
	inFilters(q.root, func(x expr) {
		if x != nil {
			conditions = conjuncts(x, conditions)
		}
	})
	if len(conditions) < 2 {
		return nil, nil
	}
	m := q.machine(ctx, v)
	var alone []Condition
	for _, x := range conditions {
		rows, err := m.set(&filter{x})
		if err == nil {
			rows, err = o.restrict(ctx, v, rows)
		}
		if err != nil {
			return nil, err
		}
		alone = append(alone, Condition{conditionText(x), rows.Len()})
	}
	return alone, nil
}

// conditionText returns a condition as text, without brackets around it.
func conditionText(x expr) string {
	text := x.String()
	if inner, ok := strings.CutPrefix(text, "("); ok {
		text = strings.TrimSuffix(inner, ")")
	}
	return text
}

// lastFilter returns the filter that selects the rows of s, or nil if s combines the rows of several
// filters.
func lastFilter(s spanset) *filter {
	switch s := s.(type) {
	case *filter:
		return s
	case *structural:
		return lastFilter(s.b)
	case *nested:
		return lastFilter(s.p.set)
	}
	return nil
}

// conjuncts appends the operands of && in x to list.
func conjuncts(x expr, list []expr) []expr {
	if b, ok := x.(*binary); ok && b.op == "&&" {
		return conjuncts(b.b, conjuncts(b.a, list))
	}
	return append(list, x)
}
