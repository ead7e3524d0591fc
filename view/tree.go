package view

import (
	"cmp"
	"errors"
	"iter"
	"slices"
	"time"
)

// A Tree holds the rows of a view in depth-first order: parents precede their children, and siblings are in order.
// The rank of a row is its position in this order. A Tree needs 12 bytes of memory for each row.
type Tree struct {
	v     *View
	ranks []uint32 // rank of each row; for a folded row, the number of ranks
	rows  []uint32 // by rank
	ends  []uint32 // for each row, the rank after the last row of its subtree; for a folded row, the number of ranks
}

// Tree returns the tree of v. The first call makes the tree, which takes some ten nanoseconds for each row.
func (v *View) Tree() *Tree {
	v.treeOnce.Do(func() { v.tree = newTree(v) })
	return v.tree
}

// Len returns the number of rows in the tree.
func (t *Tree) Len() int { return len(t.rows) }

// Row returns the row at a rank.
func (t *Tree) Row(rank int) Row { return Row(t.rows[rank]) }

// Rank returns the rank of a row, or Len if the row is not in the tree.
func (t *Tree) Rank(r Row) int {
	if int(r) >= len(t.ranks) {
		return len(t.rows)
	}
	return int(t.ranks[r])
}

// End returns the rank after the last descendant of row r. It is Rank(r)+1 if r has no children.
func (t *Tree) End(r Row) int {
	if int(r) >= len(t.ends) {
		return len(t.rows)
	}
	return int(t.ends[r])
}

// Children returns the children of row r, in order.
func (t *Tree) Children(r Row) iter.Seq[Row] {
	return func(yield func(Row) bool) {
		for rank, end := t.Rank(r)+1, t.End(r); rank < end; rank = t.End(t.Row(rank)) {
			if !yield(t.Row(rank)) {
				return
			}
		}
	}
}

func newTree(v *View) *Tree {
	t := &Tree{v: v, ranks: make([]uint32, v.n), ends: make([]uint32, v.n)}
	if v.n == 0 {
		return t
	}
	// Count the children first. A parent can have a larger row number than its child.
	first := make([]uint32, v.n+1) // the children of row r are kids[first[r]:first[r+1]]
	visible := uint32(1)
	for r := Row(1); r < Row(v.n); r++ {
		if v.flags(r).Role() != RoleFolded {
			first[v.parent(r)+1]++
			visible++
		}
	}
	for r := range v.n {
		first[r+1] += first[r]
	}
	kids, next := make([]uint32, first[v.n]), t.ends // the end of a row is known when its last child has a rank
	copy(next, first)
	for r := Row(1); r < Row(v.n); r++ {
		if v.flags(r).Role() != RoleFolded {
			p := v.parent(r)
			kids[next[p]] = uint32(r)
			next[p]++
		}
	}
	for p := range v.n {
		if k := kids[first[p]:first[p+1]]; !t.isSorted(k) {
			t.sort(k)
		}
	}
	t.rows = make([]uint32, visible)
	for r := range Row(v.n) {
		t.ranks[r], next[r] = visible, first[r]
		if v.flags(r).Role() == RoleFolded {
			t.ends[r] = visible
		}
	}
	rank, r := uint32(0), uint32(0)
	t.ranks[0] = 0
	for {
		if next[r] < first[r+1] {
			kid := kids[next[r]]
			next[r]++
			rank++
			t.ranks[kid], t.rows[rank] = rank, kid
			r = kid
			continue
		}
		t.ends[r] = rank + 1
		if r == 0 {
			return t
		}
		r = uint32(v.parent(Row(r)))
	}
}

// sort sorts siblings into the order of the view. Before the call, they are in the order of their row numbers.
func (t *Tree) sort(kids []uint32) {
	type key struct {
		time int64
		row  uint32
		link bool
	}
	keys := make([]key, len(kids))
	last := int64(noTime)
	for i, r := range kids {
		k := key{time: t.v.start(Row(r)), row: r}
		switch {
		case t.v.flags(Row(r)).Role() == RoleLink:
			k.link, k.time = true, noTime
		case k.time == noTime:
			k.time = last
		default:
			last = k.time
		}
		keys[i] = k
	}
	slices.SortFunc(keys, func(x, y key) int {
		if x.link != y.link {
			if x.link {
				return -1
			}
			return 1
		}
		return cmp.Or(cmp.Compare(x.time, y.time), cmp.Compare(x.row, y.row))
	})
	for i := range kids {
		kids[i] = keys[i].row
	}
}

// isSorted reports whether siblings are in order. If some of them have no time or are links, it may return false
// although they are in order.
func (t *Tree) isSorted(kids []uint32) bool {
	for i := 1; i < len(kids); i++ {
		a, b := Row(kids[i-1]), Row(kids[i])
		if t.v.start(a) == noTime || t.v.start(b) < t.v.start(a) || t.v.flags(a).Role() == RoleLink || t.v.flags(b).Role() == RoleLink {
			return false
		}
	}
	return true
}

// Depth returns the number of ancestors of row r, including the root. The first call computes the depths of all
// rows, which need 4 bytes of memory each.
func (v *View) Depth(r Row) int {
	v.depthsOnce.Do(v.findDepths)
	return int(v.depths[r])
}

// MaxDepth returns the depth of the deepest row. It is 0 if the view has only the root.
func (v *View) MaxDepth() int {
	v.depthsOnce.Do(v.findDepths)
	most := uint32(0)
	for _, depth := range v.depths {
		most = max(most, depth)
	}
	return int(most)
}

// findDepths computes the depths of all rows. It makes the tree only if a parent has a larger row number than its child.
func (v *View) findDepths() {
	v.depths = make([]uint32, v.n)
	if v.late {
		_ = v.Walk(0, func(r Row, depth int, _ bool) error {
			v.depths[r] = uint32(depth)
			return nil
		})
		return
	}
	for r := Row(1); r < Row(v.n); r++ {
		if v.flags(r).Role() != RoleFolded {
			v.depths[r] = v.depths[v.parent(r)] + 1
		}
	}
}

// Children returns the children of row r, in order. The caller owns the slice.
func (v *View) Children(r Row) []Row { return slices.Collect(v.Tree().Children(r)) }

// SkipChildren is an error that the function passed to [View.Walk] can return. Walk then skips all rows below the
// current row.
var SkipChildren = errors.New("skip the children") //nolint:revive,staticcheck // named like fs.SkipDir, because it is not an error

// Walk calls fn for row r and all rows below it, until fn returns an error. It visits parents before their
// children, and children in order. The argument depth is the depth below row r. The argument last is true for the
// last child of its parent.
func (v *View) Walk(r Row, fn func(r Row, depth int, last bool) error) error {
	t := v.Tree()
	rank, end := t.Rank(r), t.End(r)
	var ends []int // the ends of the subtrees that contain the row
	for rank < end {
		for len(ends) > 0 && ends[len(ends)-1] <= rank {
			ends = ends[:len(ends)-1]
		}
		r := Row(t.rows[rank])
		behind := t.End(r)
		last := len(ends) == 0 || behind == ends[len(ends)-1]
		switch err := fn(r, len(ends), last); {
		case errors.Is(err, SkipChildren):
			rank = behind
		case err != nil:
			return err
		default:
			ends = append(ends, behind)
			rank++
		}
	}
	return nil
}

// Owner returns r if row r is a span. Otherwise it returns the nearest span above r, or 0 if there
// is none.
func (v *View) Owner(r Row) Row {
	for range usualDepth {
		if r == 0 || v.Role(r) == RoleSpan {
			return r
		}
		r = v.parent(r)
	}
	v.ownersOnce.Do(v.findOwners)
	return v.owners[r]
}

// usualDepth is the number of levels that Owner climbs. After that, it computes the owners of all rows. Log
// records and events are rarely deeper below their span.
const usualDepth = 64

// findOwners computes the owners of all rows.
func (v *View) findOwners() {
	v.owners = make([]Row, v.n)
	_ = v.Walk(0, func(r Row, _ int, _ bool) error {
		v.owners[r] = v.owners[v.parent(r)]
		if v.Role(r) == RoleSpan {
			v.owners[r] = r
		}
		return nil
	})
}

// SelfTime returns the duration of the span at row r minus the time during which its child spans were open. The
// second result is false if the span has not ended.
func (v *View) SelfTime(r Row) (time.Duration, bool) {
	took, ended := v.Duration(r)
	if !ended {
		return 0, false
	}
	from := v.start(r)
	self, until, end := int64(took), from, from+int64(took)
	t := v.Tree()
	for rank, last := t.Rank(r)+1, t.End(r); rank < last; {
		kid := t.Row(rank)
		rank = t.End(kid)
		if v.Role(kid) != RoleSpan {
			continue
		}
		d := v.duration(kid)
		kidEnd := end // a child without an end was open until its parent ended
		if d != noTook {
			kidEnd = min(v.start(kid)+d, end)
		}
		if begin := max(v.start(kid), until); kidEnd > begin {
			self -= kidEnd - begin
			until = kidEnd
		}
	}
	return time.Duration(max(self, 0)), true
}
