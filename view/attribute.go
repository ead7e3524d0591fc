package view

import (
	"context"
	"slices"
	"strings"
	"sync"

	"github.com/entrace-go/entrace/format"
	"github.com/entrace-go/entrace/internal/core/mapping"
	"github.com/entrace-go/entrace/internal/core/wire"
	"github.com/entrace-go/entrace/internal/read/columns"
)

func init() {
	columns.Of = func(v any) columns.Columns { return columnsOf{v.(*View)} }
}

// columnsOf implements columns.Columns.
type columnsOf struct{ v *View }

func (c columnsOf) Blocks() int { return len(c.v.blocks) }

func (c columnsOf) Block(k int) columns.Block {
	v := c.v
	n := min(v.n-uint32(k)*blockRows, blockRows)
	b, s := v.blocks[k], v.states[k]
	return columns.Block{
		First: uint32(k) * blockRows, Start: b.start[:n], Trace: b.trace[:n], Text: b.text[:n],
		Duration: s.duration[:n], Flags: s.flags[:n], Meta: s.meta[:n], Resource: s.resource[:n], Parent: s.parent[:n],
	}
}

func (c columnsOf) OfView() *sync.Map { return &c.v.kept }

func (c columnsOf) OfFiles() *sync.Map { return &c.v.builder.kept }

func (c columnsOf) SpanID(row uint32) uint64 {
	n, _ := c.v.fileOf(Row(row)).attributeID(c.v.id(Row(row)), format.AttrSpanID)
	return n
}

func (c columnsOf) IsCorrected() bool { return c.v.builder.options.Clock != nil }

func (c columnsOf) First(row uint32) (first uint32, folded bool) {
	first = uint32(c.v.firstOf(Row(row)))
	return first, first != row
}

func (c columnsOf) SameResource(a, b uint32) bool {
	v, r, s := c.v, Row(a), Row(b)
	if v.Resource(r) == v.Resource(s) {
		return true
	}
	x, y, alike := int(v.resource(r)), int(v.resource(s)), v.alike
	return max(x, y) < len(alike) && alike[x] == alike[y] && alike[x] != 0
}

func (c columnsOf) IsCopy(row uint32) bool {
	r := Row(row)
	return c.v.copied.has(r) && c.v.last[c.v.firstOf(r)] != r
}

func (c columnsOf) Messages() []string { return c.v.messages }

func (c columnsOf) ParentsFirst() bool { return !c.v.late }

func (c columnsOf) Metas() []format.Metadata { return c.v.metas }

func (c columnsOf) Traces() int { return c.v.traces.n }

func (c columnsOf) Trace(row uint32) uint32 { return c.v.trace(Row(row)) }

func (c columnsOf) Resources() []uint32 {
	rows := make([]uint32, len(c.v.resources))
	for i := range c.v.resources {
		rows[i] = uint32(c.v.resources[i].row)
	}
	return rows
}

func (c columnsOf) Keys() []columns.Key {
	v, counts := c.v, make(map[string]int)
	for i := range v.files {
		shapes := make([]int, len(v.shapes))
		for _, n := range v.files[i].shapes {
			if n != unknown {
				shapes[n]++
			}
		}
		for n, count := range shapes {
			for _, name := range v.shapes[n] {
				counts[name] += count
			}
		}
	}
	keys := make([]columns.Key, 0, len(counts))
	for name, n := range counts {
		keys = append(keys, columns.Key{Name: name, Entries: n})
	}
	slices.SortFunc(keys, func(a, b columns.Key) int { return strings.Compare(a.Name, b.Name) })
	return keys
}

// An attributeReader reads one attribute of rows. It is safe for concurrent use.
type attributeReader struct {
	v    *View
	name string
	// replaces, if set, reads a second attribute. If a span's end has the second attribute, the span's own value of
	// this reader's attribute does not count, only the value of the end. For example, an end with a status code
	// replaces the whole status.
	replaces *attributeReader
	at       []int32 // by shape: the index of the attribute in the shape, or -1 if the shape does not have it
	size     []int32 // by shape: the encoded size of all names of the shape, which version 2 stores before the values
}

func (c columnsOf) Attribute(name string) func(row uint32) (format.Value, bool) {
	return c.v.attribute(name).value
}

// attribute returns a reader of the attribute with the given stored name.
func (v *View) attribute(name string) *attributeReader {
	a := &attributeReader{v: v, name: name, at: make([]int32, len(v.shapes)), size: make([]int32, len(v.shapes))}
	for i, s := range v.shapes {
		a.at[i] = int32(slices.Index(s, name))
		for _, name := range s {
			a.size[i] += int32(len(wire.AppendString(nil, name)))
		}
	}
	if name == mapping.AttrStatusDescription {
		a.replaces = v.attribute(mapping.AttrStatusCode)
	}
	return a
}

// raw calls fn with the encoded value of the attribute of row r, if the row has the attribute. A value from the
// span's end has precedence over a value from the span's own entry.
func (a *attributeReader) raw(r Row, fn func(value []byte)) {
	v := a.v
	if of, id := v.endOf(r); id != 0 {
		f := v.fileOf(of)
		if a.rawOf(f, id, fn) || a.replaces != nil && a.replaces.rawOf(f, id, func([]byte) {}) {
			return
		}
	}
	a.rawOf(v.fileOf(r), v.id(r), fn)
}

// rawOf is like raw, but reads a single entry. It reports whether the entry has the attribute.
func (a *attributeReader) rawOf(f *fileView, id uint32, fn func(value []byte)) (has bool) {
	shape := f.shapes[id]
	if shape != unknown && a.at[shape] < 0 {
		return false
	}
	off, gap := f.entries.Offset(id), int64(f.entries.Gap())
	_ = f.entries.View(off+gap, f.entries.Offset(id+1)-off-gap, func(b []byte) {
		if value := a.in(b, f.entries.Columns(), shape); value != nil {
			has = true
			fn(value)
		}
	})
	return has
}

// in returns the encoded value in the entry b, or nil if the entry does not have the attribute. The parameter shape is
// the shape of the entry.
func (a *attributeReader) in(b []byte, columns bool, shape uint16) []byte {
	at := wire.Nowhere
	if shape != unknown {
		at = a.find(b, columns, shape)
	}
	if at == wire.Nowhere {
		var ok bool
		at, ok = wire.FindAttribute(b, columns, a.name)
		if !ok {
			b = inUsualForm(b, columns)
			at, _ = wire.FindAttribute(b, false, a.name)
		}
	}
	if end := wire.SkipValues(b, at, 1); at < len(b) && end <= len(b) {
		return b[at:end:end]
	}
	return nil
}

// find returns the offset of the value in the entry b. The parameter shape is the shape of the entry.
func (a *attributeReader) find(b []byte, columns bool, shape uint16) int {
	var l wire.Layout
	n, p := wire.Count(b, l.Parse(b, 0))
	at := int(a.at[shape])
	if n <= at || p > len(b) {
		return wire.Nowhere
	}
	if columns {
		_, p = wire.Count(b, p+int(a.size[shape]))
		return wire.SkipValues(b, p, at)
	}
	for range at {
		p = wire.SkipValues(b, wire.SkipText(b, p), 1)
	}
	return wire.SkipText(b, p)
}

// value returns the attribute of a row, and whether the row has the attribute.
func (a *attributeReader) value(row uint32) (value format.Value, ok bool) {
	a.raw(Row(row), func(b []byte) { value, ok = decodeValue(b) })
	return value, ok
}

// decodeValue decodes a value and returns a copy.
func decodeValue(b []byte) (format.Value, bool) {
	// e encodes an entry with a single attribute, which has this value.
	e := make([]byte, 0, len(b)+16)
	e = append(e, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0)
	e = append(e, b...)
	var t format.TraceEntry
	if _, err := format.DecodeTraceEntry(e, format.V1, &t); err != nil || len(t.Attributes) != 1 {
		return format.Value{}, false
	}
	return t.Attributes[0].Value, true
}

// Limits of columns: the number of values and of bytes of one column, and the number of bytes of all columns that
// a view keeps.
const (
	maxColumnValues = 1 << 18
	maxColumnSize   = 16 << 20
	columnBudget    = 100 << 20
)

// columnsKept is a cache of the columns of a view, sorted by their last use.
type columnsKept struct {
	mu     sync.Mutex
	list   []keptColumn  // the most recently used column is last
	making chan struct{} // has an item while a column is made: this uses all processors, so only one column is made at a time
}

// A keptColumn is a column and the name of its attribute.
type keptColumn struct {
	name string
	*columns.Column
}

// add adds a column. Then it removes the least recently used columns, if the total size exceeds the budget.
func (k *columnsKept) add(name string, column *columns.Column) {
	k.list = append(k.list, keptColumn{name, column})
	size := 0
	for i, c := range slices.Backward(k.list) {
		size += 4*len(c.Codes) + 64*len(c.Values)
		if size > columnBudget && i < len(k.list)-1 {
			k.list = slices.Clone(k.list[i+1:])
			break
		}
	}
}

func (c columnsOf) Column(ctx context.Context, name string) (*columns.Column, error) {
	if made, ok := c.Kept(name); ok {
		return made, nil
	}
	k := &c.v.columnsKept
	select {
	case k.making <- struct{}{}:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	defer func() { <-k.making }()
	if made, ok := c.Kept(name); ok { // another goroutine has made the column
		return made, nil
	}
	made, err := c.make(ctx, name)
	if err != nil {
		return nil, err
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.add(name, made)
	return made, nil
}

func (c columnsOf) Kept(name string) (*columns.Column, bool) {
	k := &c.v.columnsKept
	k.mu.Lock()
	defer k.mu.Unlock()
	for i, kept := range k.list {
		if kept.name == name {
			k.list = append(slices.Delete(k.list, i, i+1), kept)
			return kept.Column, true
		}
	}
	return nil, false
}

func (c columnsOf) Drop() {
	k := &c.v.columnsKept
	k.mu.Lock()
	defer k.mu.Unlock()
	k.list = nil
}

// A dictionary assigns a number to each distinct encoded value.
type dictionary struct {
	mu     sync.Mutex
	number map[string]uint32
	values []string
	size   int
}

// of returns the code of a value, or unknownText if the dictionary has no room for it.
func (d *dictionary) of(b string) uint32 {
	d.mu.Lock()
	defer d.mu.Unlock()
	n, ok := d.number[b]
	if !ok {
		if len(d.values) >= maxColumnValues || d.size+len(b) > maxColumnSize {
			return unknownText
		}
		d.values = append(d.values, b)
		n = uint32(len(d.values))
		d.number[b] = n
		d.size += len(b)
	}
	return n
}

// A columnWriter returns the codes of values. Each goroutine has its own columnWriter, so that it rarely has to lock
// the dictionary.
type columnWriter struct {
	d      *dictionary
	known  map[string]uint32 // a copy of a part of the dictionary, read without the lock
	full   bool              // the dictionary has no room for more values
	recent [1024]struct {
		value string
		code  uint32
	}
}

func (w *columnWriter) code(b []byte) uint32 {
	slot := &w.recent[hash(b)%uint32(len(w.recent))]
	if slot.code != 0 && slot.value == string(b) {
		return slot.code
	}
	code, ok := w.known[string(b)]
	if !ok {
		if w.full {
			return unknownText
		}
		value := string(b)
		code = w.d.of(value)
		if code == unknownText {
			w.full = true
			return code
		}
		w.known[value] = code
	}
	slot.value, slot.code = string(b), code
	return code
}

// block calls fn for the rows of a block that have the attribute, with the encoded value. It reads
// all entries of the block at once if they are stored together.
func (a *attributeReader) block(k int, fn func(i int, value []byte)) {
	v := a.v
	first := Row(k * blockRows)
	last := min(first+blockRows, Row(v.n)) - 1
	slow := func(r Row) { a.raw(r, func(b []byte) { fn(int(r-first), b) }) }
	in, ok := v.bytesOf(k)
	if !ok {
		for r := first; r <= last; r++ {
			if v.flags(r).Role() != RoleFolded {
				slow(r)
			}
		}
		return
	}
	f, from := in.file, in.from
	columns, gap := f.entries.Columns(), int64(f.entries.Gap())
	var missed []Row
	err := f.entries.View(from, in.to-from, func(b []byte) {
		value := func(id uint32) []byte {
			shape := f.shapes[id]
			if shape != unknown && a.at[shape] < 0 {
				return nil
			}
			off := f.entries.Offset(id) + gap - from
			return a.in(b[off:f.entries.Offset(id+1)-from], columns, shape)
		}
		for r := first; r <= last; r++ {
			switch end := v.end(r); {
			case v.flags(r).Role() == RoleFolded:
			case end >= in.behind, end != 0 && a.replaces != nil: // few rows have an end outside of these bytes, or replace a whole status
				missed = append(missed, r)
			default:
				var found []byte
				if end != 0 {
					found = value(end)
				}
				if found == nil {
					found = value(v.id(r))
				}
				if found != nil {
					fn(int(r-first), found)
				}
			}
		}
	})
	if err != nil {
		missed = missed[:0]
	}
	for _, r := range missed {
		slow(r)
	}
}

// A blockBytes is the byte range of a file that contains the entries of a block.
type blockBytes struct {
	file          *fileView
	first, behind uint32 // the entries [first, behind); they often include the ends of the last spans
	from, to      int64
}

// bytesOf returns the byte range of the entries of a block. ok is false if the entries are not together in one
// file, or the range is too large.
func (v *View) bytesOf(k int) (b blockBytes, ok bool) {
	first := Row(k * blockRows)
	last := min(first+blockRows, Row(v.n)) - 1
	run := v.runOf(first)
	if len(v.last) > 0 || v.runOf(last) != run {
		return b, false
	}
	b.file, b.first = &v.files[v.runs[run].file], v.id(first)
	b.behind = min(v.id(last)+blockRows/4, b.file.n)
	b.from, b.to = b.file.entries.Offset(b.first), b.file.entries.Offset(b.behind)
	return b, b.to-b.from <= 64<<20
}

// make reads one attribute of all rows into a new column.
func (c columnsOf) make(ctx context.Context, name string) (*columns.Column, error) {
	a := c.v.attribute(name)
	made := &columns.Column{
		Codes: make([]uint32, c.v.n),
		Value: a.value,
	}
	d := &dictionary{number: make(map[string]uint32)}
	err := c.Each(ctx, func() func(k int) {
		w := &columnWriter{d: d, known: make(map[string]uint32)}
		return func(k int) {
			codes := made.Block(k)
			a.block(k, func(i int, b []byte) { codes[i] = w.code(b) })
		}
	})
	if err != nil {
		return nil, err
	}
	made.Values = make([]format.Value, len(d.values))
	for i, b := range d.values {
		made.Values[i], _ = decodeValue([]byte(b))
	}
	return made, nil
}

func (c columnsOf) Each(ctx context.Context, start func() func(k int)) error {
	v := c.v
	var mu sync.Mutex
	next := 0
	take := func() int {
		mu.Lock()
		defer mu.Unlock()
		if next >= len(v.blocks) || ctx.Err() != nil {
			return -1
		}
		next++
		return next - 1
	}
	var failed any // a panic of a worker, which must continue on the goroutine of the caller
	work := func() {
		defer func() {
			if p := recover(); p != nil {
				mu.Lock()
				failed, next = p, len(v.blocks)
				mu.Unlock()
			}
		}()
		fn := start()
		for k := take(); k >= 0; k = take() {
			fn(k)
		}
	}
	var wg sync.WaitGroup
	for range workersFor(uint64(v.n), v.builder.options.Workers) - 1 {
		wg.Go(work)
	}
	work()
	wg.Wait()
	if failed != nil {
		panic(failed)
	}
	return ctx.Err()
}
