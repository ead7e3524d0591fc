package view

import (
	"cmp"
	"iter"
	"math"
	"slices"
)

// A Tree holds the rows of a view in depth-first order: parents precede their children, and siblings are in order.
// The rank of a row is its position in this order. A Tree needs 12 bytes of memory for each row.
type Tree struct {
	v     *View
	ranks []uint32 // rank of each row; for a folded row, the number of ranks
	rows  []uint32 // by rank
	ends  []uint32 // for each row, the rank after the last row of its subtree
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
	n := v.n
	t := &Tree{v: v, ranks: make([]uint32, n)}
	size := make([]uint32, n) // for each row, the number of rows in its subtree; 0 for a folded row
	visible := uint32(0)
	for r := range size {
		if v.flags(Row(r)).Role() != RoleFolded {
			size[r] = 1
			visible++
		}
	}
	t.ends, t.rows = size, make([]uint32, n)
	if n == 0 {
		return t
	}
	if v.late {
		t.rows = t.rows[:visible]
		t.orderAny(size)
		return t
	}
	for r := n - 1; r > 0; r-- {
		size[v.parent(Row(r))] += size[r]
	}
	odd := t.unsorted(size)
	next := t.rows // at first, the rank of the next child of each row
	t.ranks[0], next[0] = 0, 1
	for r := range n {
		if size[r] == 0 {
			t.ranks[r] = visible
			continue
		}
		if p := uint32(v.parent(Row(r))); r > 0 && odd[p] == nil {
			t.ranks[r] = next[p]
			next[p] += size[r]
		}
		next[r] = t.ranks[r] + 1
		for _, kid := range odd[r] {
			t.ranks[kid] = next[r]
			next[r] += size[kid]
		}
	}
	for r, rank := range t.ranks {
		if size[r] > 0 {
			t.rows[rank] = uint32(r)
		}
		t.ends[r] += rank
	}
	t.rows = t.rows[:visible]
	return t
}

// unsorted returns the children of each row whose children are not already in order by row number. The children in
// the result are sorted.
func (t *Tree) unsorted(size []uint32) map[uint32][]uint32 {
	v := t.v
	last := t.ranks // for each parent, the last child so far that has a time
	odd := make(map[uint32][]uint32)
	for r := uint32(1); r < v.n; r++ {
		if size[r] == 0 {
			continue
		}
		p := uint32(v.parent(Row(r)))
		start, isLink := v.start(Row(r)), v.flags(Row(r)).Role() == RoleLink
		if l := last[p]; l != 0 {
			lastIsLink := v.flags(Row(l)).Role() == RoleLink
			switch {
			case isLink && !lastIsLink:
				odd[p] = []uint32{}
			case isLink || lastIsLink:
			case start == noTime:
				continue // a child without a time stays directly after the child before it
			case v.start(Row(l)) != noTime && start < v.start(Row(l)):
				odd[p] = []uint32{}
			}
		}
		last[p] = r
	}
	if len(odd) > 0 {
		for r := uint32(1); r < v.n; r++ {
			p := uint32(v.parent(Row(r)))
			if kids, is := odd[p]; is && size[r] > 0 {
				odd[p] = append(kids, r)
			}
		}
		for _, kids := range odd {
			t.sort(kids)
		}
	}
	clear(last)
	return odd
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

// orderAny computes the order of a tree in which a parent can have a larger row number than its child.
func (t *Tree) orderAny(size []uint32) {
	v := t.v
	first := make([]uint32, v.n+1)
	for r := uint32(1); r < v.n; r++ {
		if size[r] > 0 {
			first[v.parent(Row(r))+1]++
		}
	}
	for i := range v.n {
		first[i+1] += first[i]
	}
	kids := make([]uint32, first[v.n])
	at := slices.Clone(first[:v.n])
	for r := uint32(1); r < v.n; r++ {
		p := v.parent(Row(r))
		if size[r] > 0 {
			kids[at[p]] = r
			at[p]++
		}
	}
	for p := range v.n {
		if k := kids[first[p]:first[p+1]]; !t.isSorted(k) {
			t.sort(k)
		}
	}
	visible := uint32(len(t.rows))
	for r := range t.ranks {
		t.ranks[r] = visible
	}
	copy(at, first)
	rank, r := uint32(0), uint32(0)
	t.ranks[0] = 0
	for {
		if at[r] < first[r+1] {
			kid := kids[at[r]]
			at[r]++
			rank++
			t.ranks[kid], t.rows[rank] = rank, kid
			r = kid
			continue
		}
		t.ends[r] = rank + 1
		if r == 0 {
			return
		}
		r = uint32(v.parent(Row(r)))
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

// MaxDepth returns the depth of the deepest row. It is 0 if the view has only the root.
func (v *View) MaxDepth() int {
	most := 0
	if v.late {
		_ = v.Walk(0, func(_ Row, depth int, _ bool) error {
			most = max(most, depth)
			return nil
		})
		return most
	}
	depths := make([]uint16, v.n)
	for r := Row(1); r < Row(v.n); r++ {
		up := depths[v.parent(r)]
		if up == math.MaxUint16 {
			return v.maxDepth()
		}
		depths[r] = up + 1
		if int(up) >= most && v.flags(r).Role() != RoleFolded {
			most = int(up) + 1
		}
	}
	return most
}

// maxDepth does the same as MaxDepth without making the tree. Every parent must have a smaller row number than its
// children.
func (v *View) maxDepth() int {
	depths := make([]uint32, v.n)
	most := uint32(0)
	for r := Row(1); r < Row(v.n); r++ {
		depths[r] = depths[v.parent(r)] + 1
		if v.flags(r).Role() != RoleFolded {
			most = max(most, depths[r])
		}
	}
	return int(most)
}

// Depth returns the number of ancestors of row r, including the root. The first call computes the depths of all
// rows, which need 4 bytes of memory each.
func (v *View) Depth(r Row) int {
	v.depthsOnce.Do(func() {
		v.depths = make([]uint32, v.n)
		_ = v.Walk(0, func(r Row, depth int, _ bool) error {
			v.depths[r] = uint32(depth)
			return nil
		})
	})
	return int(v.depths[r])
}
