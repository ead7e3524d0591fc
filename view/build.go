package view

import (
	"encoding/binary"
	"errors"
	"sync"

	"github.com/entrace-go/entrace/format"
	"github.com/entrace-go/entrace/internal/core/entrybytes"
	"github.com/entrace-go/entrace/internal/core/mapping"
	"github.com/entrace-go/entrace/internal/core/spanmap"
	"github.com/entrace-go/entrace/internal/otel"
	"github.com/entrace-go/entrace/internal/read/columns"
)

// A builder makes the views of a list of files. Each view contains at least the entries of the previous view.
type builder struct {
	growingColumns

	mu      sync.Mutex // held while a view is made
	latest  *View
	options Options

	files   []*growingFile
	parsers []*parser
	numbers map[*parser]*numbers

	metas     []format.Metadata // without levels
	metaOf    map[format.Metadata]uint16
	messages  []string
	messageOf map[string]uint32
	shapes    [][]string
	shapeOf   map[string]uint16
	resources []resource
	traces    traces
	traceAt   traceTable

	joined  uint32 // all rows with smaller numbers are joined
	late    bool   // some row has a parent with a larger number
	fresh   []want // the wants of the rows that were added since the last join
	waiting wants  // wants whose span has not been found yet
	halves  []Row  // spans that began in an earlier file
	last    map[Row]Row
	begun   map[Row]beginning // for spans with several ends: the fields of the span without an end

	exceptions rowBits  // the spans that have an exception
	kept       sync.Map // see columns.Columns.OfFiles
	copies     copies
	halved     sharedSpans
}

// numbers translates the numbers that one parser assigned to the numbers of the builder.
type numbers struct {
	metas, shapes []uint16
	messages      []uint32
}

func newBuilder(files []*format.File, o *Options) *builder {
	b := &builder{
		options: *o, numbers: make(map[*parser]*numbers),
		metaOf: make(map[format.Metadata]uint16), messages: []string{""}, messageOf: map[string]uint32{"": 0},
		shapeOf:   make(map[string]uint16),
		resources: make([]resource, 1), last: make(map[Row]Row), begun: make(map[Row]beginning),
	}
	b.traces.add([16]byte{})
	for _, f := range files {
		b.files = append(b.files, &growingFile{source: &source{f, entrybytes.Of(f)}})
	}
	return b
}

// addChunk adds the records of a chunk to the view under construction.
func (b *builder) addChunk(c *chunk) error {
	f := b.files[c.file]
	if f.damage != nil || f.n != c.first {
		return nil // the chunk comes after damage
	}
	m := b.numbersOf(c)
	for len(f.folded) < int(c.last)/64+1 {
		f.folded, f.before = append(f.folded, 0), append(f.before, 0)
	}
	b.beginRun(f, c.file)
	t := taker{builder: b, file: f, chunk: c, numbers: m}
	b.traceAt.chunk = b.traceAt.chunk[:0]
	for _, id := range c.traces {
		b.traceAt.chunk = append(b.traceAt.chunk, b.traceNumber(id))
	}
	for i := range c.records {
		t.record(&c.records[i], c.first+uint32(i))
	}
	f.n = c.first + uint32(len(c.records))
	var corrupt *format.CorruptError
	if c.err == nil || errors.As(c.err, &corrupt) || errors.Is(c.err, format.ErrTruncated) {
		f.damage = c.err
		return nil
	}
	return c.err
}

// beginRun begins a run of a file, unless the last run belongs to the same file.
func (b *builder) beginRun(f *growingFile, file int) {
	if n := len(b.runs); n > 0 {
		switch last := b.runs[n-1]; {
		case last.file == file:
			return
		case last.row == Row(b.n): // the last run is empty, because all its entries were folded
			b.runs = b.runs[:n-1]
		}
	}
	f.runs = append(f.runs, fileRun{f.n - f.count, Row(b.n)})
	b.runs = append(b.runs, run{Row(b.n), file})
}

// A taker adds the records of a chunk to the builder.
type taker struct {
	*builder

	file    *growingFile
	chunk   *chunk
	numbers *numbers

	traces, wants, names, places int // the number of items already used in each slice of the chunk
}

// numbersOf returns the translation of the numbers of the chunk's parser. Before that, it adds the parser's new
// metas, messages and shapes to the builder.
func (b *builder) numbersOf(c *chunk) *numbers {
	m := b.numbers[c.parser]
	if m == nil {
		m = new(numbers)
		b.numbers[c.parser] = m
	}
	for _, text := range c.metas[len(m.metas):] {
		m.metas = append(m.metas, b.metaNumber(metadataOf([]byte(text))))
	}
	for _, s := range c.shapes[len(m.shapes):] {
		m.shapes = append(m.shapes, b.shapeNumber(s))
	}
	for _, text := range c.messages[len(m.messages):] {
		m.messages = append(m.messages, b.messageNumber(text))
	}
	return m
}

func (b *builder) metaNumber(m format.Metadata) uint16 {
	n, ok := b.metaOf[m]
	if !ok {
		if len(b.metas) >= unknown {
			return unknown
		}
		n = uint16(len(b.metas))
		b.metas = append(b.metas, m)
		b.metaOf[m] = n
	}
	return n
}

func (b *builder) messageNumber(text string) uint32 {
	n, ok := b.messageOf[text]
	if !ok {
		if len(b.messages) >= maxMessages {
			return unknownText
		}
		n = uint32(len(b.messages))
		b.messages = append(b.messages, text)
		b.messageOf[text] = n
	}
	return n
}

func (b *builder) shapeNumber(s *shape) uint16 {
	n, ok := b.shapeOf[string(s.names)]
	if !ok {
		if len(b.shapes) >= unknown {
			return unknown
		}
		n = uint16(len(b.shapes))
		all := make([]string, len(s.path))
		for i, k := range s.path {
			all[i] = nameIn(k.name)
		}
		b.shapes = append(b.shapes, all)
		b.shapeOf[string(s.names)] = n
	}
	return n
}

// A traceTable is a hash table from trace ids to the numbers of traces.
type traceTable struct {
	// tags has one byte of each id's hash, or 0 for a free slot. A different tag proves that the id is different:
	// comparing the ids themselves costs a cache miss each.
	tags    []uint8
	numbers []uint32
	// chunk has the numbers of the traces of the current chunk. One loop looks up all of them, so that the
	// processor waits for several cache misses at once.
	chunk []uint32
}

// grow empties the table and doubles its size.
func (t *traceTable) grow() {
	n := max(2*len(t.tags), 1<<10)
	t.tags, t.numbers = make([]uint8, n), make([]uint32, n)
}

// traceNumber returns the number of a trace id, or 0 for the zero id.
func (b *builder) traceNumber(id [16]byte) uint32 {
	if id == [16]byte{} {
		return 0
	}
	if b.traces.n*4 > len(b.traceAt.tags)*3 {
		b.traceAt.grow()
		for i := 1; i < b.traces.n; i++ {
			at, tag := b.traceAt.find(b.traces.at(uint32(i)), nil)
			b.traceAt.tags[at], b.traceAt.numbers[at] = tag, uint32(i)
		}
	}
	at, tag := b.traceAt.find(id, &b.traces)
	if b.traceAt.tags[at] == 0 {
		b.traceAt.tags[at], b.traceAt.numbers[at] = tag, uint32(b.traces.n)
		b.traces.add(id)
	}
	return b.traceAt.numbers[at]
}

// find returns the slot and the tag of a trace id. If the table does not have the id, it returns a free slot for
// it. A nil known means that the table surely does not have the id.
func (t *traceTable) find(id [16]byte, known *traces) (at uint64, tag uint8) {
	mask := uint64(len(t.tags) - 1)
	h := spanmap.Hash(binary.LittleEndian.Uint64(id[:]), binary.LittleEndian.Uint64(id[8:]))
	tag = uint8(h>>56) | 1
	for at = h & mask; t.tags[at] != 0; at = (at + 1) & mask {
		if t.tags[at] == tag && known != nil && known.at(t.numbers[at]) == id {
			break
		}
	}
	return at, tag
}

// record adds the record of entry id to the builder.
func (t *taker) record(r *record, id uint32) {
	f := t.file
	if id%64 == 0 {
		f.before[id/64] = f.count
	}
	shape := r.shape
	if shape != unknown {
		shape = t.numbers.shapes[shape]
	}
	f.shapes = append(f.shapes, shape)
	var name string
	if r.flags&recordRenames != 0 {
		name = t.chunk.names[t.names]
		t.names++
	}
	var at format.Metadata
	if r.flags&recordPlaces != 0 {
		at = t.chunk.places[t.places]
		t.places++
	}
	ownTrace := uint32(0)
	if r.flags&recordTraces != 0 {
		ownTrace = t.traceAt.chunk[t.traces]
		t.traces++
	}
	if id == 0 && t.n > 0 {
		f.fold(id) // all files share one root
		return
	}
	// The variable parent is the parent in the tree; below is the row of the parent that the entry has in the file.
	parent, below := Row(0), Row(0)
	if id > 0 {
		if f.folded.Has(r.parent) && r.parent > 0 {
			parent = t.unfolded(r.parent, id)
		} else {
			parent = f.row(r.parent)
		}
		below = parent
	}
	if r.flags&recordIsEnd != 0 {
		if !f.folded.Has(r.parent) && r.parent > 0 && (t.flags(parent).Role() == RoleSpan || t.isHalf(parent)) {
			f.fold(id)
			t.endSpan(parent, r, id, name, at)
			return
		}
		if r.flags&recordIsMarked != 0 {
			r.flags |= uint32(RoleEvent)
		}
	}
	parent = t.firstOf(parent)
	if r.flags&recordExcepts != 0 {
		t.addException(parent)
	}
	row, b, s, i := t.add()
	trace, resource := uint32(0), uint16(0)
	if id > 0 {
		trace, resource = t.trace(below), t.resource(below)
	}
	if r.flags&recordTraces != 0 {
		trace = ownTrace
	}
	role := Role(r.flags & columns.RoleBits)
	if role == RoleResource {
		resource = t.resourceNumber(row)
	}
	if r.flags&recordWants != 0 {
		t.fresh = append(t.fresh, want{row: row, span: t.chunk.wants[t.wants]})
		t.wants++
	}
	if role == RoleSpan && r.flags&flagContinued != 0 && r.flags&recordHasTook == 0 && len(t.files) > 1 {
		t.halves = append(t.halves, row)
	}
	text := r.text
	if r.flags&flagMessage != 0 && text != unknownText {
		text = t.numbers.messages[text]
	}
	meta := r.meta
	if meta != unknown {
		meta = t.numbers.metas[meta]
	}
	b.start[i], b.trace[i], b.text[i] = t.corrected(r.start, f, resource, parent), trace, text
	if role == RoleRecorder && meta != unknown && t.metas[meta].Name == mapping.NameTrace {
		f.flight = row
	}
	t.setID(i, id)
	s.duration[i], s.parent[i], s.flags[i] = r.duration, uint32(parent), uint16(r.flags)
	s.meta[i], s.resource[i] = meta, resource
}

// unfolded returns the row into which the folded entry id is folded. The parameter below is a child of entry id.
func (t *taker) unfolded(id, below uint32) Row {
	for id > 0 && t.file.folded.Has(id) {
		if id >= t.chunk.first && id < below {
			id = t.chunk.records[id-t.chunk.first].parent
		} else {
			id = t.file.file.Parent(id)
		}
	}
	return t.file.row(id)
}

// isHalf reports whether row r is the later half of a span, that is, a span that is folded into another row.
func (b *builder) isHalf(r Row) bool {
	return b.isFolded(r) && b.flags(b.firstOf(r)).Role() == RoleSpan
}

// resourceNumber adds the resource at a row, and returns its number. It returns unknown if the table is full.
func (b *builder) resourceNumber(row Row) uint16 {
	if len(b.resources) >= unknown {
		return unknown
	}
	b.resources = append(b.resources, resource{row: row})
	return uint16(len(b.resources) - 1)
}

// endSpan folds the end of a span into the span's row. r is the record of the end, which is entry id.
func (b *builder) endSpan(row Row, r *record, id uint32, name string, at format.Metadata) {
	s, i := b.change(row)
	was := beginning{s.flags[i], s.meta[i], s.duration[i]}
	if s.end[i] != 0 {
		// Only the last end counts: start from the span without its earlier end.
		was = b.began(row)
	}
	s.end[i] = id
	if last, ok := b.last[row]; ok && b.end(last) != 0 {
		return // the end of the later half is already used
	}
	b.fold(row, was, r, name, at)
	if b.isFolded(row) {
		b.join(b.firstOf(row), row)
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

// fold updates the span at row with r, the record of its end. The argument was has the fields of the span without
// an end. As in [View.Entry], fields that the end does not have keep their values.
func (b *builder) fold(row Row, was beginning, r *record, name string, at format.Metadata) {
	flags, meta, duration := was.flags, was.meta, was.duration
	if r.flags&recordHasStatus != 0 {
		if columns.Status(uint16(r.flags)) != uint8(otel.StatusError) {
			flags = flags&^levelBits | uint16(format.LevelInfo)<<levelShift
		}
		flags = flags&^columns.StatusBits | uint16(r.flags)&columns.StatusBits
	}
	if Flags(r.flags).Level() == format.LevelError {
		flags = flags&^levelBits | uint16(format.LevelError)<<levelShift
	}
	if r.flags&recordHasKind != 0 {
		flags = flags&^columns.KindBits | uint16(r.flags)&columns.KindBits
	}
	if r.flags&flagContinued != 0 {
		flags |= flagContinued
	}
	if r.flags&recordHasTook != 0 {
		duration = r.duration
		flags &^= flagOpen
	}
	if meta != unknown && r.flags&(recordRenames|recordPlaces) != 0 {
		m := b.metas[meta]
		if r.flags&recordRenames != 0 {
			m.Name = name
		}
		setPlace(&m, &at)
		meta = unknown
		if len(m.Name)+len(m.Target)+len(m.ModulePath.Value)+len(m.File.Value) <= maxPlaceSize {
			meta = b.metaNumber(m)
		}
	}
	s, i := b.change(row)
	s.flags[i], s.meta[i], s.duration[i] = b.withException(row, flags), meta, duration
}

// setPlace copies the fields of the source location from end to m, if end has them.
func setPlace(m, end *format.Metadata) {
	if end.ModulePath.Valid {
		m.ModulePath = end.ModulePath
	}
	if end.File.Valid {
		m.File = end.File
	}
	if end.Line.Valid {
		m.Line = end.Line
	}
}

// addException records that the span at row has an exception.
func (b *builder) addException(row Row) {
	if b.flags(row).Role() != RoleSpan {
		return
	}
	b.exceptions.add(row)
	s, i := b.change(row)
	s.flags[i] = b.withException(row, s.flags[i])
}

// withException returns the flags of the span at row. If the status is unset and the span has an
// exception, the status becomes StatusExcepted.
func (b *builder) withException(row Row, flags uint16) uint16 {
	if columns.Status(flags) != uint8(otel.StatusUnset) {
		return flags
	}
	flags &^= columns.StatusBits
	if b.exceptions.has(row) {
		flags |= columns.StatusExcepted << columns.StatusShift
	}
	return flags
}

// A beginning holds the fields of a span without its end.
type beginning struct {
	flags, meta uint16
	duration    int64
}

// began returns the fields of a row without its end.
func (b *builder) began(row Row) beginning {
	old := b.flags(row)
	was, ok := b.begun[row]
	if !ok {
		c, err := b.fileOf(row).parseOne(b.id(row))
		if err != nil {
			return beginning{uint16(old), b.meta(row), b.duration(row)}
		}
		r := &c.records[0]
		was = beginning{uint16(r.flags), unknown, r.duration}
		if r.meta != unknown {
			was.meta = b.metaNumber(metadataOf([]byte(c.metas[r.meta])))
		}
		b.begun[row] = was
	}
	was.flags |= uint16(old) & flagMissing
	return was
}

// fileOf returns the file to which row r belongs.
func (b *builder) fileOf(r Row) *growingFile { return b.files[b.fileNumber(r)] }

// entry returns the entry of a row.
func (b *builder) entry(r Row) (*format.TraceEntry, error) { return b.fileOf(r).file.Entry(b.id(r)) }

// corrected returns the time start, plus the correction of the clock of the file and service.
func (b *builder) corrected(start int64, f *growingFile, resource uint16, parent Row) int64 {
	if b.options.Clock == nil || start == noTime {
		return start
	}
	service := ""
	if resource != unknown {
		service = b.serviceOf(resource)
	} else {
		for parent != 0 && b.flags(parent).Role() != RoleResource { // the table of resources is full
			parent = b.parent(parent)
		}
		if e, err := b.entry(parent); err == nil && parent != 0 {
			service = serviceIn(e)
		}
	}
	return start + int64(b.options.Clock(f.file, service))
}

// serviceOf returns the service of a resource.
func (b *builder) serviceOf(n uint16) string {
	if n == 0 || n == unknown {
		return ""
	}
	r := &b.resources[n]
	if r.service == "" {
		if e, err := b.entry(r.row); err == nil {
			r.service = serviceIn(e)
		}
	}
	return r.service
}

// serviceIn returns the service that the entry of a resource names.
func serviceIn(e *format.TraceEntry) string {
	if s, ok := e.Attribute("service.name"); ok {
		return s.String()
	}
	return e.Message.Value
}
