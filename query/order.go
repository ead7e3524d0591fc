package query

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/entrace-go/entrace/view"
)

// InTime returns rows sorted by time. A row without a time has the time of the row before it.
func InTime(v *view.View, rows view.Set[view.Row]) []view.Row {
	list := slices.Collect(rows.All())
	times := make(map[view.Row]int64)
	last := int64(0)
	for _, r := range list {
		if t, ok := v.Start(r); ok {
			last = t
		} else {
			times[r] = last
		}
	}
	at := func(r view.Row) int64 {
		if t, ok := v.Start(r); ok {
			return t
		}
		return times[r]
	}
	slices.SortStableFunc(list, func(a, b view.Row) int { return cmp.Compare(at(a), at(b)) })
	return list
}

// sort sorts the lines of the table, or the rows if there is no table, by an expression.
func (m *machine) sort(x expr, desc bool, rows view.Set[view.Row], r *Result) error {
	less := func(a, b Value) int { return orderIn(desc, a, b) }
	if r.Table != nil {
		at := len(r.Table.Columns) - 1
		if l, ok := x.(*literal); !ok || l.value.kind != kindNil {
			name := x.String()
			at = slices.IndexFunc(r.Table.Columns, func(c string) bool {
				return c == name || c == name+"()" || len(c) > len(name) && c[:len(name)+1] == name+"("
			})
			if at < 0 {
				return &Error{Text: "the table has no column " + name, Hint: "its columns are " + fmt.Sprint(r.Table.Columns)}
			}
		}
		slices.SortStableFunc(r.Table.Lines, func(a, b []Value) int { return less(a[at], b[at]) })
		return nil
	}
	value, err := m.value(x)
	if err != nil {
		return err
	}
	e := &env{m: m, read: m.v.NewReader()}
	list := InTime(m.v, rows)
	keys := make(map[view.Row]Value, len(list))
	for _, row := range list {
		e.row = row
		keys[row] = value(e)
	}
	slices.SortStableFunc(list, func(a, b view.Row) int { return less(keys[a], keys[b]) })
	r.Order = list
	return nil
}
