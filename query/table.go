package query

import (
	"slices"
	"strings"
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
