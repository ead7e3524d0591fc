package analyze

import (
	"iter"

	"github.com/entrace-go/entrace/internal/read/columns"
	"github.com/entrace-go/entrace/view"
)

// SetOf returns a set of rows.
func SetOf(v *view.View, rows []view.Row) view.Set[view.Row] {
	set := v.NewSet()
	for _, r := range rows {
		set.Add(r)
	}
	return set
}

// Subtree returns row r and all rows below it, in the order of the tree.
func Subtree(v *view.View, r view.Row) iter.Seq[view.Row] {
	return func(yield func(r view.Row) bool) {
		t := v.Tree()
		for rank, end := t.Rank(r), t.End(r); rank < end; rank++ {
			if !yield(t.Row(rank)) {
				return
			}
		}
	}
}

// Above returns a function that reports whether an ancestor of a row is a span of a set. It visits each row only once.
func Above(v *view.View, rows view.Set[view.Row]) func(r view.Row) bool {
	// The set looked has the visited rows; below has the visited rows at or below a span of the set.
	looked, below := v.NewSet(), v.NewSet()
	return func(r view.Row) bool {
		up, is := v.Parent(r), false
		if v.Role(up) == view.RoleSpan && rows.Has(up) { // a fast path for most rows
			return true
		}
		for ; up != 0 && !is && !looked.Has(up); up = v.Parent(up) {
			is = v.Role(up) == view.RoleSpan && rows.Has(up)
		}
		is = is || below.Has(up)
		for r = v.Parent(r); r != up; r = v.Parent(r) {
			looked.Add(r)
			if is {
				below.Add(r)
			}
		}
		return is
	}
}

// operations gives numbers to operations.
type operations struct {
	list  []operation // by number
	known map[operation]int32
}

// reader returns a function that returns the number of a row's operation. Its parameters resource and meta are the codes
// of the row in the columns of its block.
func (o *operations) reader(v *view.View) func(r view.Row, resource, meta uint16) int32 {
	byCodes := make(map[[2]uint16]int32)
	return func(r view.Row, resource, meta uint16) int32 {
		codes := [2]uint16{resource, meta}
		n, ok := byCodes[codes]
		if ok && max(resource, meta) != columns.Unknown {
			return n
		}
		op := operationOf(v, r)
		n, ok = o.known[op]
		if !ok {
			n = int32(len(o.list))
			o.known[op], o.list = n, append(o.list, op)
		}
		byCodes[codes] = n
		return n
	}
}
