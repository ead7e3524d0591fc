package fit

import (
	"cmp"
	"slices"
	"unique"

	"github.com/entrace-go/entrace/view"
)

// Rows describes the rows of an answer.
type Rows struct {
	All   []view.Row                        // in the order of the answer
	Up    func(r view.Row) (view.Row, bool) // the row above r in a tree; it is kept if r is kept
	Kind  func(r view.Row) string           // the kind of r; rows of the same kind are alike
	Value func(r view.Row) int64            // how important r is
	Size  func(r view.Row) int              // the maximum number of bytes of r
	Fold  func(alike []view.Row) int        // the number of bytes of the line that stands for the rows

	kinds []unique.Handle[string] // the kind of each row of All
	order []view.Row              // the rows of All in the order in which they are kept
}

// Choose sets kept to the rows that fit into most bytes. It keeps one row of each kind before it keeps a second row of
// any kind. It returns lists of rows that are not kept: all rows of a list have the same kind and the same row above
// them, and one line stands for the list. The kept rows get at least half of the bytes. They leave the rest to the lists
// if lists of several rows would not fit otherwise.
func (x *Rows) Choose(most int, kept view.Set[view.Row]) (folds [][]view.Row) {
	x.sort()
	for room := most; ; room -= max(most/8, 1) {
		clear(kept)
		size := x.keep(room, kept)
		folds = folds[:0]
		missed, tight := 0, false
		for _, list := range x.alike(kept) {
			n := x.Fold(list)
			if size+n <= most {
				size += n
				folds = append(folds, list)
				continue
			}
			tight = tight || len(list) > 1
			missed++
			if missed == maxMissed {
				break
			}
		}
		if !tight || room <= most/2 {
			return folds
		}
	}
}

// sort sets x.kinds and x.order.
func (x *Rows) sort() {
	type candidate struct {
		row   view.Row
		kind  unique.Handle[string]
		value int64
	}
	var list []candidate
	for _, r := range x.All {
		kind := unique.Make(x.Kind(r))
		x.kinds = append(x.kinds, kind)
		list = append(list, candidate{r, kind, x.Value(r)})
	}
	slices.SortStableFunc(list, func(a, b candidate) int { return cmp.Compare(b.value, a.value) })
	seen := make(map[unique.Handle[string]]bool)
	var others []view.Row
	for _, c := range list {
		if seen[c.kind] {
			others = append(others, c.row)
			continue
		}
		seen[c.kind] = true
		x.order = append(x.order, c.row)
	}
	x.order = append(x.order, others...)
}

// maxMissed is the number of rows or lists that do not fit after which no more of them are tried.
const maxMissed = 32

// keep adds the rows that fit into room bytes to kept, with the rows above them. It returns the number of their bytes.
func (x *Rows) keep(room int, kept view.Set[view.Row]) (size int) {
	missed := 0
	for _, r := range x.order {
		cost := 0
		for up, is := r, true; is && !kept.Has(up) && size+cost <= room; up, is = x.Up(up) {
			cost += x.Size(up)
		}
		if size+cost > room {
			missed++
			if missed == maxMissed {
				break
			}
			continue
		}
		size += cost
		for up, is := r, true; is && !kept.Has(up); up, is = x.Up(up) {
			kept.Add(up)
		}
	}
	return size
}

// alike returns lists of rows that are not kept, the longest list first. All rows of a list have the same kind and the
// same kept row above them, or none above them.
func (x *Rows) alike(kept view.Set[view.Row]) (lists [][]view.Row) {
	type group struct {
		up   view.Row
		kind unique.Handle[string]
	}
	numbers := make(map[group]int)
	for i, r := range x.All {
		up, is := x.Up(r)
		if kept.Has(r) || is && !kept.Has(up) {
			continue
		}
		n, seen := numbers[group{up, x.kinds[i]}]
		if !seen {
			n = len(lists)
			numbers[group{up, x.kinds[i]}] = n
			lists = append(lists, nil)
		}
		lists[n] = append(lists[n], r)
	}
	slices.SortStableFunc(lists, func(a, b []view.Row) int { return cmp.Compare(len(b), len(a)) })
	return lists
}
