package view

import (
	"cmp"
	"context"
	"maps"
	"slices"

	"github.com/entrace-go/entrace/format"
)

// New makes a view of at least one file. If a recorder wrote several of the files one after the other, the earlier
// files must precede the later files. A nil o means defaults.
//
// Damaged entries, and all entries after them in their file, are not part of the view: see
// [View.Damage]. The error is the error of ctx, or of reading a file.
func New(ctx context.Context, files []*format.File, o *Options) (*View, error) {
	if o == nil {
		o = &Options{}
	}
	return newBuilder(files, o).extend(ctx)
}

// Extend returns a view of the current contents of the files, including entries that were added. It returns v if
// no entries were added. v itself does not change. Rows keep their numbers.
func (v *View) Extend(ctx context.Context) (*View, error) {
	for _, f := range v.builder.files {
		if err := f.entries.Grow(ctx); err != nil {
			return nil, err
		}
	}
	return v.builder.extend(ctx)
}

// extend reads the new entries of the files, and returns a view with them.
func (b *builder) extend(ctx context.Context) (*View, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	limits := make([]uint32, len(b.files))
	more := 0
	for i, f := range b.files {
		limits[i] = max(f.n, uint32(f.file.Len()))
		if f.damage != nil {
			limits[i] = f.n
		}
		more += int(limits[i] - f.n)
	}
	if more == 0 && b.latest != nil {
		return b.latest, nil
	}
	if b.n == 0 {
		b.reserve(more / 2)
	}
	if err := b.run(ctx, limits); err != nil {
		return nil, err
	}
	if err := b.moveToParents(b.joined); err != nil {
		return nil, err
	}
	b.joined = b.n
	v := b.view()
	if !slices.ContainsFunc(b.files, (*growingFile).canGrow) {
		b.forget()
	}
	return v, nil
}

// run reads the new entries of each file. For file i, it stops before entry limits[i].
func (b *builder) run(ctx context.Context, limits []uint32) error {
	p := &pass{ctx: ctx, until: limits, take: b.addChunk}
	total := uint64(0)
	for i, f := range b.files {
		p.sources = append(p.sources, f.source)
		p.next = append(p.next, f.n)
		more := int(limits[i] - f.n)
		total += uint64(more)
		if f.n == 0 {
			f.folded, f.before = make([]uint64, 0, more/64+1), make([]uint32, 0, more/64+1)
			f.shapes = make([]uint16, 0, more)
		}
	}
	n := workersFor(total, b.options.Workers)
	for len(b.parsers) < n {
		b.parsers = append(b.parsers, newParser())
	}
	return p.run(b.parsers[:n])
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

// view returns a View of all entries that were read so far.
func (b *builder) view() *View {
	for i := range b.resources[1:] {
		b.serviceOf(uint16(i + 1))
	}
	v := &View{
		storedColumns: b.share(), builder: b, metas: slices.Clip(b.metas),
		messages: slices.Clip(b.messages), shapes: slices.Clip(b.shapes),
		traces: b.traces.share(), resources: slices.Clone(b.resources), late: b.late,
		columnsKept: columnsKept{making: make(chan struct{}, 1)},
	}
	for _, f := range b.files {
		v.files = append(v.files, fileView{source: f.source, n: f.n, shapes: slices.Clip(f.shapes), damage: f.damage})
	}
	for file, run := range v.runsSince(0) {
		f := &v.files[file]
		f.runs = append(f.runs, run)
	}
	v.last, v.copies, v.copied = maps.Clone(b.last), b.copies.n, slices.Clone(b.copies.rows)
	v.alike = slices.Clone(b.copies.numbers)
	b.latest = v
	return v
}

// forget drops the data that is needed only to add more entries.
func (b *builder) forget() {
	b.parsers, b.numbers, b.metaOf, b.messageOf, b.shapeOf, b.begun, b.exceptions = nil, nil, nil, nil, nil, nil, nil
	b.copies, b.halved, b.traceAt = copies{}, sharedSpans{}, traceTable{}
	for _, f := range b.files {
		f.folded, f.before = nil, nil
	}
}
