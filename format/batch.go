package format

import (
	"encoding/binary"
	"math"
	"slices"
	"unicode/utf8"
)

// A Span is what a recorder is told of an OpenTelemetry span.
type Span struct {
	// Entry is the span's entry; Parent is not used. It has no attributes
	// trace_id and parent_span_id: the recorder adds them where they are needed.
	Entry TraceEntry
	// Children are the entries of its links and events, in their order.
	Children []TraceEntry

	SpanHead
}

// A SpanHead says where a span belongs.
type SpanHead struct {
	Ref      SpanRef
	Parent   SpanRef   // none for the first span of a trace
	Remote   bool      // the parent is a span of another process
	Resource *Resource // of this recorder; nil, or of another one: the root
	// Time is when the span began, in nanoseconds since 1970. Where several
	// goroutines record, entries are written in the order of their times. Zero is
	// now.
	Time int64
	// Wait makes the span wait when its parent is local and not written yet, as
	// an exporter meets children before their parents.
	Wait bool
	// Open says that the span has not ended: EndSpan will tell the rest.
	Open bool
}

// A Resource is an entry that local root spans hang below.
type Resource struct {
	owner *Recorder
	index uint32 // in owner.resources, from 1 on
	body  []byte // its encoding without the parent
	head  int
	id    uint32 // 0: not in the file yet
}

// A Batch gathers log records and spans and hands them to a recorder. Entries are
// encoded as they are added, in place and without a lock. Each begins with Begin,
// has its attributes added by String and the like, and ends with End, else it is
// left out; Entry does all that. Log, Span and EndSpan then say what the entries since the last of
// these calls are.
//
// A Batch is not safe for concurrent use. Write ends its life.
type Batch struct {
	r       *Recorder
	version Version
	limit   int // of an entry in bytes
	stripe  uint32

	// Invariants: buf holds the records, each where ops says, and then what is
	// being built, from record on. Of an entry that is being built, body and
	// attrs are where it and its number of attributes begin.
	buf      []byte
	ops      []op
	errs     []error // of the records that cannot be recorded
	record   int
	entries  int
	err      error // of the record that is being built
	body     int
	attrs    int
	count    int
	open     bool           // it was not ended yet
	provider Provider       // of the record that is being built
	quiet    bool           // nobody is told of it
	streams  *[]*RingStream // that there were when it was put into a ring
	columns  []column       // version 2: the attributes that were added
	values   []byte         // their values
}

// An op is a record of a batch.
type op struct {
	start, end int
	entries    int
	sum        uint64
	key        int64
	bad        int // it cannot be recorded: see Batch.errOf
	kind       byte
	flags      byte
	provider   Provider
	quiet      bool
}

// errOf returns why o cannot be recorded, nil if it can.
func (b *Batch) errOf(o *op) error {
	if o.bad == 0 {
		return nil
	}
	return b.errs[o.bad-1]
}

// ref returns the span that o, a record in buf, is of, if it has flagRef.
func (o *op) ref(buf []byte) (r SpanRef) {
	at := o.end - refSize
	if o.flags&flagParent != 0 {
		at -= refSize
	}
	r.set(buf[at:])
	return r
}

// spans returns how many spans o offers. Whether one of the kind opEither is one
// shows only when it gets its place.
func (o *op) spans() uint64 {
	if o.kind == opSpan {
		return 1
	}
	return 0
}

// A column is an attribute of version 2, where names and values lie apart.
type column struct {
	name     string
	from, to int // in values
}

// Batch returns an empty batch.
func (r *Recorder) Batch() *Batch {
	b, _ := r.batches.Get().(*Batch)
	if b == nil {
		b = &Batch{r: r, version: r.version, limit: r.maxEntry, stripe: r.nextStripe.Add(1)}
	}
	return b
}

// maxKeep is how large a buffer is kept for later use.
const maxKeep = 1 << 20

func (b *Batch) release() {
	if cap(b.buf) > maxKeep {
		return
	}
	if len(b.errs) > 0 {
		clear(b.errs)
		b.errs = b.errs[:0]
	}
	b.buf, b.ops = b.buf[:0], b.ops[:0]
	b.record, b.entries, b.err, b.provider, b.quiet = 0, 0, nil, 0, false
	b.r.batches.Put(b)
}

// Begin begins an entry. Its parent is the recorder's to find.
func (b *Batch) Begin(message Optional[string], m *Metadata) {
	b.room()
	if m.Level >= numLevels {
		b.err = ErrBadLevel
	}
	buf := b.buf
	if message.Valid {
		buf = appendText(append(buf, 1), message.Value)
	} else {
		buf = append(buf, 0)
	}
	buf = appendText(buf, m.Name)
	buf = appendText(buf, m.Target)
	buf = append(buf, byte(m.Level))
	buf = appendOptionalText(buf, &m.ModulePath)
	buf = appendOptionalText(buf, &m.File)
	if m.Line.Valid {
		buf = appendUint(append(buf, 1), uint64(m.Line.Value))
	} else {
		buf = append(buf, 0)
	}
	b.attrs = len(buf)
	b.buf = append(buf, 0) // how many attributes: End knows
}

// room makes room for what comes before the body of an entry.
func (b *Batch) room() {
	if b.entries == 0 {
		b.record = len(b.buf)
		b.buf = append(b.buf, zeros[:recordHead]...)
	}
	b.entries++
	b.buf = append(b.buf, zeros[:bodyHead]...)
	b.body = len(b.buf)
	b.count, b.open = 0, true
}

// leave leaves out an entry that was not ended.
func (b *Batch) leave() {
	if !b.open {
		return
	}
	b.open = false
	b.columns, b.values = b.columns[:0], b.values[:0]
	b.buf = b.buf[:b.body-bodyHead]
	if b.entries--; b.entries == 0 {
		b.buf = b.buf[:b.record]
	}
}

var zeros [64]byte

// appendText is appendString of valid UTF-8.
func appendText(b []byte, s string) []byte {
	if !isASCII(s) && !utf8.ValidString(s) {
		s = string([]rune(s))
	}
	return appendString(b, s)
}

func appendOptionalText(b []byte, s *Optional[string]) []byte {
	if !s.Valid {
		return append(b, 0)
	}
	return appendText(append(b, 1), s.Value)
}

// isASCII reports whether s has nothing but ASCII. It is faster than
// utf8.ValidString for the short texts that names and most values are.
func isASCII(s string) bool {
	const high = 0x8080808080808080
	if len(s) < 8 {
		if len(s) >= 4 { // the two parts overlap, as below
			return (word32(s, 0)|word32(s, len(s)-4))&(high>>32) == 0
		}
		var c byte
		for i := range len(s) {
			c |= s[i]
		}
		return c < utf8.RuneSelf
	}
	last := word64(s, len(s)-8)
	for ; len(s) > 8; s = s[8:] {
		if word64(s, 0)&high != 0 {
			return false
		}
	}
	return last&high == 0
}

func word64(s string, i int) uint64 {
	return uint64(s[i]) | uint64(s[i+1])<<8 | uint64(s[i+2])<<16 | uint64(s[i+3])<<24 |
		uint64(s[i+4])<<32 | uint64(s[i+5])<<40 | uint64(s[i+6])<<48 | uint64(s[i+7])<<56
}

func word32(s string, i int) uint32 {
	return uint32(s[i]) | uint32(s[i+1])<<8 | uint32(s[i+2])<<16 | uint32(s[i+3])<<24
}

// name begins an attribute and returns the buffer for its value.
func (b *Batch) name(name string) []byte {
	b.count++
	if !b.version.hasAttrColumns() {
		return appendText(b.buf, name)
	}
	if !isASCII(name) {
		name = validText(name) // before it is sorted
	}
	b.columns = append(b.columns, column{name: name, from: len(b.values)})
	return b.values
}

// value ends it.
func (b *Batch) value(buf []byte) {
	if !b.version.hasAttrColumns() {
		b.buf = buf
		return
	}
	b.values = buf
	b.columns[len(b.columns)-1].to = len(buf)
}

// short is the length up to which a text takes a byte for it.
const short = tag16 - 1

// quick makes room for an attribute of version 1 with a short name that is ASCII,
// puts the name there, and returns the buffer and where the value goes; nil when
// there is no such quick way.
func (b *Batch) quick(name string, size int) ([]byte, int) {
	if len(name) > short || b.version.hasAttrColumns() || !isASCII(name) {
		return nil, 0
	}
	n := len(b.buf)
	end := n + 1 + len(name)
	if cap(b.buf)-end < size {
		b.buf = slices.Grow(b.buf, 1+len(name)+size)
	}
	buf := b.buf[:cap(b.buf)]
	buf[n] = byte(len(name))
	copy(buf[n+1:end], name)
	b.count++
	return buf, end
}

// String adds an attribute. A text that is not valid UTF-8 becomes Bytes.
func (b *Batch) String(name, value string) {
	if len(value) <= short && isASCII(value) {
		if buf, n := b.quick(name, 2+len(value)); buf != nil {
			buf[n], buf[n+1] = byte(KindString), byte(len(value))
			copy(buf[n+2:], value)
			b.buf = buf[:n+2+len(value)]
			return
		}
	}
	b.value(AppendText(b.name(name), value))
}

// Bytes adds an attribute.
func (b *Batch) Bytes(name string, value []byte) {
	buf := appendUint(append(b.name(name), byte(KindBytes)), uint64(len(value)))
	b.value(append(buf, value...))
}

// Bool adds an attribute.
func (b *Batch) Bool(name string, value bool) {
	n := byte(0)
	if value {
		n = 1
	}
	b.value(append(b.name(name), byte(KindBool), n))
}

// Float adds an attribute.
func (b *Batch) Float(name string, value float64) {
	b.value(binary.LittleEndian.AppendUint64(append(b.name(name), byte(KindFloat)), math.Float64bits(value)))
}

// U64 adds an attribute.
func (b *Batch) U64(name string, value uint64) {
	if buf, n := b.quick(name, 10); buf != nil {
		buf[n] = byte(KindU64)
		b.buf = appendUint(buf[:n+1], value)
		return
	}
	b.value(appendUint(append(b.name(name), byte(KindU64)), value))
}

// I64 adds an attribute.
func (b *Batch) I64(name string, value int64) {
	if buf, n := b.quick(name, 10); buf != nil {
		buf[n] = byte(KindI64)
		b.buf = appendInt(buf[:n+1], value)
		return
	}
	b.value(appendInt(append(b.name(name), byte(KindI64)), value))
}

// Hex adds an attribute that is the text of an id: two lower-case digits a byte.
func (b *Batch) Hex(name string, id []byte) {
	if buf, n := b.quick(name, 2+2*len(id)); buf != nil && len(id) <= 16 {
		buf[n], buf[n+1] = byte(KindString), byte(2*len(id))
		n += 2
		for _, c := range id {
			*(*[2]byte)(buf[n:]) = hexPairs[c]
			n += 2
		}
		b.buf = buf[:n]
		return
	}
	buf := appendUint(append(b.name(name), byte(KindString)), uint64(2*len(id)))
	b.value(AppendHex(buf, id))
}

// Value adds an attribute of any kind.
func (b *Batch) Value(name string, v *Value) {
	if v.kind == KindString {
		b.String(name, v.Text())
		return
	}
	b.value(appendValue(b.name(name), v))
}

// End ends an entry.
func (b *Batch) End() {
	b.open = false
	if b.version.hasAttrColumns() {
		b.assemble()
	} else if b.count < tag16 {
		b.buf[b.attrs] = byte(b.count)
	} else {
		n := appendUint(nil, uint64(b.count))
		b.buf = slices.Insert(b.buf, b.attrs+1, n[1:]...)
		b.buf[b.attrs] = n[0]
	}
	b.fits()
}

// fits notes the size of the entry that was built, and makes it fit if it is too
// large.
func (b *Batch) fits() {
	size := len(b.buf) - b.body
	if size > b.limit-maxAdded || b.count > MaxAttributes-maxOptional {
		b.cut()
		return
	}
	binary.LittleEndian.PutUint32(b.buf[b.body-8:], uint32(size))
	binary.LittleEndian.PutUint32(b.buf[b.body-4:], uint32(b.attrs-b.body))
	if size <= minBody && isZero(b.buf[b.body:]) {
		b.nameless()
	}
}

// maxAdded is what the parent and the optional attributes add to an entry at
// most.
const maxAdded = 128

// minBody is the size of a body with nothing in it, at most.
const minBody = 9

// nameless gives a name to an entry of zeros alone, which would be read as the
// mark of a crash.
func (b *Batch) nameless() {
	e := TraceEntry{Metadata: Metadata{Name: "(empty)"}}
	b.again(&e)
}

// again encodes another entry in the place of the one that was built.
func (b *Batch) again(e *TraceEntry) {
	b.open = true
	b.leave()
	b.Entry(e)
}

// cut makes an entry that is too large fit.
func (b *Batch) cut() {
	if b.err != nil {
		return
	}
	d := decoder{version: b.version, maxSize: math.MaxInt, whole: true}
	d.reset(append([]byte{0}, b.buf[b.body:]...), 0, NoEntry)
	var e TraceEntry
	d.traceEntry(&e)
	if d.Err() != nil { // there are more attributes than a reader takes, or sizes beyond its limits
		b.err = ErrTooLarge
		return
	}
	limit := b.limit
	b.limit = math.MaxInt // what fit cannot make smaller stays
	b.again(fit(&e, limit))
	b.limit = limit
	if len(b.buf)-b.body > limit-maxAdded {
		b.err = ErrTooLarge
	}
}

// assemble puts the names and values of version 2 behind each other.
func (b *Batch) assemble() {
	c := b.columns
	for i := 1; i < len(c); i++ { // most come in order, or are few
		for j := i; j > 0 && c[j].name < c[j-1].name; j-- {
			c[j], c[j-1] = c[j-1], c[j]
		}
		if i == 32 && len(c) > 64 {
			slices.SortStableFunc(c, func(x, y column) int {
				switch {
				case x.name < y.name:
					return -1
				case x.name > y.name:
					return 1
				}
				return 0
			})
			break
		}
	}
	buf := appendUint(b.buf[:b.attrs], uint64(b.count))
	for i := range c {
		buf = appendString(buf, c[i].name)
	}
	buf = appendUint(buf, uint64(b.count))
	for i := range c {
		buf = append(buf, b.values[c[i].from:c[i].to]...)
	}
	b.buf = buf
	clear(c)
	b.columns, b.values = c[:0], b.values[:0]
	if cap(b.values) > maxKeep {
		b.values = nil
	}
}

// Entry adds an entry. Its parent is not used.
func (b *Batch) Entry(e *TraceEntry) {
	if len(e.Attributes) > MaxAttributes-maxOptional {
		e = fit(e, b.limit)
	}
	b.Begin(e.Message, &e.Metadata)
	for i := range e.Attributes {
		b.Value(e.Attributes[i].Name, &e.Attributes[i].Value)
	}
	b.End()
}

// Undo takes back the entries since the last record.
func (b *Batch) Undo() {
	if b.entries > 0 {
		b.buf = b.buf[:b.record]
	}
	b.entries, b.err, b.open = 0, nil, false
	b.columns, b.values = b.columns[:0], b.values[:0]
}
