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
	Up    func(r view.Row) (view.Row, bool) // the row above in a tree, which is kept with r
	Kind  func(r view.Row) string           // rows of a kind are alike
	Value func(r view.Row) int64            // how much a row matters
	Size  func(r view.Row) int              // how many bytes a row has, at most
	Fold  func(alike []view.Row) int        // how many bytes the line has that stands for rows

	kinds []unique.Handle[string] // of All
	order []view.Row              // All, what is kept first in front
}

// Choose adds the rows that fit into most bytes to kept, and returns lists of other rows, of one kind and below one
// row. A line stands for each list. Of each kind, it keeps one row before it keeps a second one of any kind. Rows get at
// least half of the bytes; they leave room for the lists that have several rows.
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

// maxMissed is how many rows that do not fit are skipped.
const maxMissed = 32

// keep adds the rows that fit to kept, with the rows above them, and returns their size.
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

// alike returns the lists of rows of one kind below one row that is kept, the longest first.
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
