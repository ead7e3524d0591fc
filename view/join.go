package view

import (
	"cmp"
	"maps"
	"slices"

	"github.com/entrace-go/entrace/format"
	"github.com/entrace-go/entrace/internal/otel"
	"github.com/entrace-go/entrace/internal/read/columns"
)

const noRow = Row(1<<32 - 1)

// findWanted searches the rows [from, to) for wanted spans, and adds the rows that it finds to the slots of w.
func (b *builder) findWanted(w *wants, from, to uint32) error {
	if len(w.all) == 0 {
		return nil
	}
	for r := from; r < to; r++ {
		k, i := r/blockRows, r%blockRows
		trace := b.blocks[k].trace[i]
		if Flags(b.states[k].flags[i]).Role() != RoleSpan || !w.wanted(trace, b.blocks[k].text[i]) {
			continue
		}
		id, err := b.spanID(Row(r))
		if err != nil {
			return err
		}
		if s := w.slot(trace, id); s.first != 0 {
			b.foundAt(s, Row(r))
		}
	}
	return nil
}

// fewRows is the maximum length of wantSlot.found that is searched linearly. A longer list is searched through
// wantSlot.files.
const fewRows = 8

// hitIn returns the rows of a wanted span in a file. ok is false if there are none.
func (b *builder) hitIn(s *wantSlot, f *growingFile) (h hit, ok bool) {
	if s.files != nil {
		h, ok = s.files[f]
		return h, ok
	}
	for _, r := range s.found {
		if b.fileOf(r) == f {
			if !ok {
				h.first = r
			}
			ok, h.starts = true, h.starts || b.flags(r)&flagContinued == 0
		}
	}
	return h, ok
}

// foundAt adds row r to the rows of a wanted span. r must be greater than all rows added before.
func (b *builder) foundAt(s *wantSlot, r Row) {
	f, starts := b.fileOf(r), b.flags(r)&flagContinued == 0
	h, ok := b.hitIn(s, f)
	if ok && (h.starts || !starts) {
		return
	}
	if len(s.found) == fewRows {
		files := make(map[*growingFile]hit)
		for _, r := range s.found {
			files[b.fileOf(r)], _ = b.hitIn(s, b.fileOf(r))
		}
		s.files = files
	}
	s.found = append(s.found, r)
	if starts {
		s.starts = append(s.starts, r)
	}
	if s.files != nil {
		if !ok {
			h.first = r
		}
		s.files[f] = hit{h.first, starts}
	}
}

// spanID returns the id of the span at row r.
func (b *builder) spanID(r Row) (uint64, error) {
	return b.fileOf(r).attributeID(b.id(r), format.AttrSpanID)
}

// best returns the row of the span to which x refers, or noRow. If x.row is not a later half of a span, best returns
// the first row of the span in the same file, or else the first row of the span in any file. If x.row is a later
// half, best returns the first row of the span in another file that did not itself begin in an earlier file, or else
// the first row of the span in another file before x.row.
func (b *builder) best(x want, s *wantSlot) Row {
	own := b.fileOf(x.row)
	if !x.half {
		if h, ok := b.hitIn(s, own); ok {
			return h.first
		}
		if len(s.found) > 0 {
			return s.found[0]
		}
		return noRow
	}
	for _, r := range s.starts[:min(2, len(s.starts))] { // at most one of these rows is in the same file
		if b.fileOf(r) != own {
			return r
		}
	}
	for _, r := range s.found[:min(3, len(s.found))] { // at most two of these rows are in the same file
		if b.fileOf(r) != own && r < x.row {
			return r
		}
	}
	return noRow
}

// A move makes row want.row a child of row to.
type move struct {
	want

	to Row
}

// keepWaiting keeps the wants whose span was not found. It marks their rows, because the parent is missing.
func (b *builder) keepWaiting(fresh *wants) {
	found := false
	for i := range b.waiting.slots {
		found = found || len(b.waiting.slots[i].found) > 0
	}
	old := []*wants{fresh}
	if found {
		// Spans are rarely found late, so building a new table is the least work.
		w := b.waiting
		b.waiting = wants{}
		old = append(old, &w)
	}
	for _, w := range old {
		for i := range w.slots {
			s := &w.slots[i]
			for at := s.first - 1; at >= 0; at = w.next[at] {
				x := w.all[at]
				if b.best(x, s) != noRow {
					if b.flags(x.row).Missing() {
						st, i := b.change(x.row)
						st.flags[i] &^= flagMissing
					}
					continue
				}
				b.waiting.add(x, s.trace)
				if !x.half && x.span != 0 && s.trace != 0 && b.flags(b.parent(x.row)).Role() != RoleSpan && !b.flags(x.row).Missing() {
					st, i := b.change(x.row)
					st.flags[i] |= flagMissing
				}
			}
		}
	}
}

// joinHalves folds each later half of a span into the first half. It reports whether it folded any rows.
func (b *builder) joinHalves(moves []move) (joined bool) {
	for _, m := range moves {
		if !m.half {
			continue
		}
		first := b.firstOf(m.to)
		if b.isFolded(m.row) || first == m.row {
			continue
		}
		b.foldInto(m.row, first)
		b.join(first, m.row)
		joined = true
	}
	if joined {
		b.moveLast()
	}
	return joined
}

// foldInto folds row r into another row, called first, which becomes the parent of r.
func (b *builder) foldInto(r, first Row) {
	b.setParent(r, first)
	s, i := b.change(r)
	s.flags[i] = s.flags[i]&^columns.RoleBits | uint16(RoleFolded)
	if b.exceptions.has(r) {
		b.addException(first)
	}
}

// belowHalves returns moves for the rows whose parent is folded into another row.
func (b *builder) belowHalves() (below []move) {
	for r := Row(1); r < Row(b.n); r++ {
		if up := b.parent(r); b.isFolded(up) {
			below = append(below, move{want{row: r}, b.firstOf(up)})
		}
	}
	return below
}

// moveLast corrects b.last. If a first half was folded into an earlier first half, b.last of the earlier half now has
// the last half.
func (b *builder) moveLast() {
	for _, h := range slices.Sorted(maps.Keys(b.last)) {
		if b.isFolded(h) {
			b.join(b.firstOf(h), b.last[h])
			delete(b.last, h)
		}
	}
}

func (b *builder) setParent(r, to Row) {
	s, i := b.change(r)
	s.parent[i] = uint32(to)
	b.late = b.late || to > r
}

// moveAll applies moves. If a row has several moves, only the last one counts.
func (b *builder) moveAll(moves []move) {
	moves = slices.DeleteFunc(moves, func(m move) bool {
		return m.half || m.to == b.parent(m.row) || b.firstOf(m.to) == b.parent(m.row) || b.flags(m.row).Role() == RoleFolded
	})
	if len(moves) == 0 {
		return
	}
	slices.SortStableFunc(moves, func(x, y move) int { return cmp.Compare(x.row, y.row) })
	last := 0
	for i, m := range moves {
		if i > 0 && m.row != moves[last].row {
			last++
		}
		moves[last] = m
	}
	moves = moves[:last+1]
	// If a row moves below a later row, a cycle can result. Therefore detach all moving rows with their subtrees
	// first, and attach them one by one. The trees of rows are the subtrees.
	rows := make(forest[Row], b.n)
	for r := range rows {
		rows[r] = b.parent(Row(r))
	}
	for _, m := range moves {
		rows[m.row] = m.row
	}
	homeless := false
	for _, m := range moves {
		to := b.firstOf(m.to)
		if rows.root(to) == m.row {
			to = b.firstOf(b.parent(m.row))
		}
		if rows.root(to) == m.row {
			to = 0
		}
		b.setParent(m.row, to)
		rows[m.row] = to
		if f := b.flags(m.row); f.Role() == RoleLog && columns.Status(uint16(f)) == uint8(otel.StatusError) {
			b.addException(to)
		}
		homeless = homeless || b.resource(m.row) == 0
	}
	if homeless {
		b.inheritResources()
	}
}

// A forest has trees of rows or of files. It maps each row or file to its parent, and the root of a tree to itself.
type forest[T Row | int] []T

// root returns the root of the tree that contains x. It shortens the path from x to the root for later calls.
func (f forest[T]) root(x T) T {
	for f[x] != x {
		f[x] = f[f[x]]
		x = f[x]
	}
	return x
}

// inheritResources gives each row without a resource the resource of its parent.
func (b *builder) inheritResources() {
	seen := make(Set[Row], b.n/64+1)
	var path []Row
	for r := range Row(b.n) {
		path = path[:0]
		at := r
		for at != 0 && b.resource(at) == 0 && !seen.Has(at) {
			seen.Add(at)
			path = append(path, at)
			at = b.parent(at)
		}
		resource := b.resource(at)
		for _, at := range path {
			if resource != 0 {
				s, i := b.change(at)
				s.resource[i] = resource
			}
		}
	}
}
