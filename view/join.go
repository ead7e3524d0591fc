package view

import (
	"cmp"
	"maps"
	"math"
	"slices"

	"github.com/entrace-go/entrace/format"
	"github.com/entrace-go/entrace/internal/core/spanmap"
	"github.com/entrace-go/entrace/internal/otel"
	"github.com/entrace-go/entrace/internal/read/columns"
)

// A want is a reference from a row to a span whose row must be found. The span is the parent of the row, the span
// of a log record, or the first half of the row's own span.
type want struct {
	span uint64
	row  Row
	half bool
}

// wants is a hash table of wants by the trace and id of the span.
type wants struct {
	all   []want
	next  []int32 // by index in all: the index of the next want of the same span; -1 at the end
	slots []wantSlot
	used  int
	seen  []uint64 // a Bloom filter over the trace and the low half of the span id
}

// A wantSlot is a slot of the hash table. It stands for one span to which rows refer.
type wantSlot struct {
	span  uint64
	trace uint32
	first int32 // the index in wants.all plus 1; 0 if the slot is free
	// found has at most two rows of each file: the first row of the span, and the first row that did not begin in
	// an earlier file. starts has only the rows of the second kind. If found is long, files has the same
	// information by file.
	found, starts []Row
	files         map[*growingFile]hit
}

// add adds a want of a span of the given trace.
func (w *wants) add(x want, trace uint32) {
	if 2*w.used >= len(w.slots) {
		old := w.slots
		w.slots = make([]wantSlot, max(64, 2*len(old)))
		w.seen = make([]uint64, len(w.slots)/16)
		for _, s := range old {
			if s.first != 0 {
				*w.slot(s.trace, s.span) = s
				w.see(s.trace, s.span)
			}
		}
	}
	s := w.slot(trace, x.span)
	if s.first == 0 {
		w.used++
		s.trace, s.span = trace, x.span
		w.see(trace, x.span)
	}
	w.all, w.next = append(w.all, x), append(w.next, s.first-1)
	s.first = int32(len(w.all))
}

// see adds a span to the Bloom filter.
func (w *wants) see(trace uint32, span uint64) {
	bit := spanmap.Hash(uint64(trace), span&math.MaxUint32) % uint64(64*len(w.seen))
	w.seen[bit/64] |= 1 << (bit % 64)
}

// wanted reports whether a want of a span with this trace and this low half of its id may exist.
func (w *wants) wanted(trace, low uint32) bool {
	bit := spanmap.Hash(uint64(trace), uint64(low)) % uint64(64*len(w.seen))
	return w.seen[bit/64]>>(bit%64)&1 != 0
}

func (w *wants) slot(trace uint32, span uint64) *wantSlot {
	mask := uint64(len(w.slots) - 1)
	for i := spanmap.Hash(uint64(trace), span) & mask; ; i = (i + 1) & mask {
		if s := &w.slots[i]; s.first == 0 || s.trace == trace && s.span == span {
			return s
		}
	}
}

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

// A hit describes the rows of a wanted span in one file.
type hit struct {
	first  Row
	starts bool // one of the rows did not begin in an earlier file
}

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

// moveToParents moves rows below the spans that they name. It moves the row was and all later rows, and those earlier
// rows whose span is among the new rows.
func (b *builder) moveToParents(was uint32) error {
	for _, h := range b.halves {
		id, err := b.spanID(h)
		if err != nil {
			return err
		}
		b.fresh = append(b.fresh, want{row: h, span: id, half: true})
	}
	b.halves = nil
	var fresh wants
	for _, x := range b.fresh {
		fresh.add(x, b.trace(x.row))
	}
	if err := b.findWanted(&b.waiting, was, b.n); err != nil {
		return err
	}
	if err := b.findWanted(&fresh, 0, b.n); err != nil {
		return err
	}
	var moves []move
	for _, w := range []*wants{&b.waiting, &fresh} {
		for i := range w.slots {
			s := &w.slots[i]
			if s.first == 0 || len(s.found) == 0 {
				continue
			}
			for at := s.first - 1; at >= 0; at = w.next[at] {
				x := w.all[at]
				if to := b.best(x, s); to != noRow && to != x.row {
					moves = append(moves, move{x, to})
				}
			}
		}
	}
	slices.SortFunc(moves, func(x, y move) int { return cmp.Compare(x.row, y.row) })
	b.keepWaiting(&fresh)
	b.fresh = nil
	joined := b.joinHalves(moves)
	copied, err := b.joinSpanCopies(was)
	if err != nil {
		return err
	}
	var below []move
	if joined || copied {
		below = b.belowHalves()
	}
	b.moveAll(append(below, moves...))
	if err := b.findShared(was); err != nil {
		return err
	}
	b.moveAll(b.belowShared())
	below, err = b.joinOtherCopies(was)
	if err == nil {
		b.moveAll(below)
	}
	return err
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

// join updates the row first, the first half of a span, with the end in the row half, a later half of the span.
func (b *builder) join(first, half Row) {
	if last, ok := b.last[first]; ok && b.end(last) != 0 && (b.end(half) == 0 || last > half) {
		return
	}
	b.last[first] = half
	if b.end(half) == 0 {
		return
	}
	c, err := b.fileOf(half).parseOne(b.end(half))
	if err != nil {
		return
	}
	name, at := "", format.Metadata{}
	if len(c.names) > 0 {
		name = c.names[0]
	}
	if len(c.places) > 0 {
		at = c.places[0]
	}
	b.fold(first, b.began(first), &c.records[0], name, at)
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

// isFolded reports whether row r is part of another row. It may be called for the root's parent before any row
// exists.
func (b *builder) isFolded(r Row) bool { return uint32(r) < b.n && b.flags(r).Role() == RoleFolded }

// firstOf returns the row into which row r is folded, or r itself if r is not folded.
func (b *builder) firstOf(r Row) Row {
	for b.isFolded(r) {
		r = b.parent(r)
	}
	return r
}
