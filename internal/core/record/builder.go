package record

import (
	"encoding/binary"
	"math/bits"
	"slices"
	"time"

	"github.com/entrace-go/entrace/internal/core/journal"
	"github.com/entrace-go/entrace/internal/core/wire"
	"github.com/entrace-go/entrace/internal/text"
	"github.com/entrace-go/entrace/redact"
)

// A Builder builds the data of one record. The caller calls Reset first, and then for each entry Place or Head, the
// methods for its attributes, and End. A Builder keeps no reference to the texts that are passed to it. The zero
// Builder writes each name as a text, without a number.
//
// A Builder is not safe for concurrent use.
type Builder struct {
	In *Interner
	// MaxText, if not 0, is the size above which a text is cut.
	MaxText int
	// Redact replaces secrets, if it is not nil. If In is set, Redact must be the Redactor of In.
	Redact *redact.Redactor

	buf     []byte // journal.HeadSize reserved bytes, then the data
	entries int
	entry   int // offset of the entry that is being built; 0: no entry
	shared  *journal.Shared
	split   int // offset of the reference to the shared items, see Share
	own     bool
	place   *Place
	known   []interned // the names of the attributes that recent records of the same place had, in order
	next    int        // index in known of the next expected name
	missed  []interned // the names of the entry from the first unexpected name on
	cutHead bool       // a text of the head was cut
	message string     // the message of the entry, redacted
	level   uint8      // of the entry
	time    int64      // of the record; 0: not known yet

	redaction // only used with Redact
}

// maxKeep is the largest capacity of a buffer that is kept for later use.
const maxKeep = 1 << 20

// Reset begins a record and drops the previous content of b. The record begins with ref if flags has FlagRef; parent
// follows if flags has FlagParent. An argument whose flag is not set may be nil.
func (b *Builder) Reset(flags uint8, ref, parent *Ref) {
	if cap(b.buf) > maxKeep || cap(b.buf) < 512 {
		b.buf = make([]byte, 0, 512)
	}
	b.buf = b.buf[:journal.HeadSize]
	b.entries, b.entry, b.shared, b.split, b.time = 0, 0, nil, 0, 0
	if flags&FlagRef != 0 {
		b.buf = append(b.buf, ref[:]...)
	}
	if flags&FlagParent != 0 {
		b.buf = append(b.buf, parent[:]...)
	}
}

// Record sets Data, With and Split of r to the record that was built. They are valid until Reset.
func (b *Builder) Record(r *journal.Record) {
	r.Data, r.With, r.Split = b.buf, b.shared, b.split
}

// Data returns the data of the record that was built, without shared items. The slice is valid
// until Reset.
func (b *Builder) Data() []byte { return b.buf[journal.HeadSize:] }

// Entries returns the number of entries that have ended.
func (b *Builder) Entries() int { return b.entries }

// begin begins an entry. It drops an entry that has not ended.
func (b *Builder) begin() {
	if b.entry > 0 {
		b.Drop()
	}
	b.entry, b.own = len(b.buf), true
	b.groups.names, b.groups.ends, b.groups.matter = b.groups.names[:0], b.groups.ends[:0], false
	b.place, b.known, b.missed = nil, nil, nil
}

// Drop drops the entry that has not ended.
func (b *Builder) Drop() {
	if b.entry > 0 {
		if b.split > b.entry {
			b.shared, b.split = nil, 0
		}
		b.buf, b.entry = b.buf[:b.entry], 0
	}
}

// Place begins an entry that is made at p, a place in the source code.
func (b *Builder) Place(p *Place, level uint8, message string) {
	number := uint16(p.number.Load())
	if number == 0 {
		number = p.define()
	}
	if number == 0 {
		h := p.head
		h.Level, h.Message, h.HasMessage = level, message, true
		b.Head(&h)
		return
	}
	b.begin()
	b.next, b.level = 0, level
	if p.learnt.Load() < maxLearn {
		b.place = p
	}
	if names := p.names.Load(); names != nil {
		b.known = *names
	}
	if p.head.HasMessage && p.head.Message == message {
		b.message = message
		b.buf = appendNumber(append(b.buf, headPlace|headPlaceMessage, level), number)
		return
	}
	b.message = b.Redact.Text(message)
	b.buf = appendBytes(appendNumber(append(b.buf, headPlace|headMessage, level), number), b.cut(b.message))
	b.noteCut()
}

// Head begins an entry with the head h.
func (b *Builder) Head(h *wire.Head) {
	b.begin()
	b.buf = append(b.buf, headFlags(h), h.Level)
	b.text(h.Name, true)
	b.text(h.Target, true)
	if h.HasModule {
		b.text(h.Module, true)
	}
	if h.HasFile {
		b.text(h.File, true)
	}
	if h.HasLine {
		b.buf = appendUvarint(b.buf, uint64(h.Line))
	}
	b.message, b.level = "", h.Level
	if h.HasMessage {
		b.message = b.Redact.Text(h.Message)
		b.buf = appendBytes(b.buf, b.cut(b.message))
	}
	b.noteCut()
}

// headFlags returns the first byte of the head of an entry.
func headFlags(h *wire.Head) (flags byte) {
	if h.HasMessage {
		flags |= headMessage
	}
	if h.HasModule {
		flags |= headModule
	}
	if h.HasFile {
		flags |= headFile
	}
	if h.HasLine {
		flags |= headLine
	}
	return flags
}

// Message returns the message of the entry that is being built, redacted but not cut.
func (b *Builder) Message() string { return b.message }

// Level returns the level of the entry that is being built.
func (b *Builder) Level() uint8 { return b.level }

// noteCut marks the entry as truncated if a text of its head was cut.
func (b *Builder) noteCut() {
	if b.cutHead {
		b.cutHead = false
		b.Truncated()
	}
}

// text appends the number of s, or s itself if it has no number.
func (b *Builder) text(s string, own bool) {
	if b.In != nil {
		if n, _ := b.In.name(s, own); n != 0 {
			b.buf = appendNumber(b.buf, n)
			return
		}
	}
	b.buf = appendBytes(append(b.buf, 0), b.cut(b.Redact.Text(s)))
}

// User says that the attributes that follow are the application's. The placer renames such an attribute if its name
// is reserved or occurs twice. The names of attributes added before User are stored unchanged.
func (b *Builder) User() { b.own = false }

// maxLearn limits how often a place changes its list of expected names. maxKnown limits the length of this list.
const (
	maxLearn = 16
	maxKnown = 64
)

// learn stores the names of the current entry as the names that its place expects.
func (b *Builder) learn() {
	p := b.place
	if b.missed != nil {
		p.learnt.Add(1)
		names := slices.Concat(b.known[:b.next], b.missed)
		p.names.Store(&names)
	}
	b.place, b.known, b.missed = nil, nil, nil
}

// number returns the number of a name other than the next expected name of the place. It returns 0 if the name has
// no number.
func (b *Builder) number(s string) (n uint16, v redact.Verdict) {
	n, v = b.In.name(s, b.own)
	if b.place != nil && n != 0 && b.next+len(b.missed) < maxKnown {
		b.known = b.known[:b.next] // the rest of the entry is compared with no expected names
		b.missed = append(b.missed, *b.In.newInterned(n, b.In.Get(n)))
	}
	return n, v
}

// End ends the entry.
func (b *Builder) End() {
	if b.place != nil {
		b.learn()
	}
	b.buf = append(b.buf, 0, codeEnd)
	b.entries++
	b.entry = 0
}

// Truncated marks the entry as incomplete.
func (b *Builder) Truncated() { b.buf = append(b.buf, 0, codeTruncated) }

// AttrTime is the name of the attribute with the time of a record.
const AttrTime = "time_unix_nano"

// RecordTime adds the attribute with the time of the record.
func (b *Builder) RecordTime() {
	b.buf = append(b.buf, 0, codeTime)
}

// SetTime says that the record has the time unixNano, in nanoseconds since 1970; 0 means that the time is not known.
func (b *Builder) SetTime(unixNano int64) { b.time = unixNano }

// Share adds items that Items returned, possibly Items of another Builder. Only the first call for a record shares
// the items; a later call copies them.
func (b *Builder) Share(s *journal.Shared) {
	if b.shared != nil {
		b.buf = append(b.buf, s.Bytes()...)
		return
	}
	b.buf = append(b.buf, 0, codeShared)
	b.shared, b.split = s, len(b.buf)
	b.buf = append(b.buf, make([]byte, journal.SharedSize)...)
}

// Items returns a copy of the current entry's items, beginning at the offset from, for Share and Append. The items
// must not include shared items.
func (b *Builder) Items(from int) []byte { return slices.Clone(b.buf[from:]) }

// Mark returns the offset at which the next item will begin, for Items.
func (b *Builder) Mark() int { return len(b.buf) }

// Append adds a copy of items that Items returned.
func (b *Builder) Append(items []byte) { b.buf = append(b.buf, items...) }

// name begins an attribute, and makes room for size bytes after its name.
func (b *Builder) name(s string, size int) {
	if cap(b.buf)-len(b.buf) < 2+size {
		b.grow(2 + size)
	}
	if b.next < len(b.known) {
		if k := &b.known[b.next]; k.own == b.own && len(k.text) == len(s) {
			if first, last := ends(s); first == k.first && last == k.last && (len(s) <= 16 || k.text == s) {
				b.next++
				b.appendNumber(k.number)
				b.verdict = k.verdict
				return
			}
		}
	}
	b.otherName(s, size)
}

// otherName is like name, for a name other than the next expected name. b.buf has room for a number.
func (b *Builder) otherName(s string, size int) {
	if b.In != nil {
		if n, v := b.number(s); n != 0 {
			b.appendNumber(n)
			b.verdict = v
			return
		}
	}
	code := byte(codeName)
	if b.own {
		code = codeOwn
	}
	b.verdict = b.Redact.Key(s)
	s = b.cut(b.Redact.Text(s))
	b.grow(12 + len(s) + size)
	b.buf = appendBytes(append(b.buf, 0, code), s)
}

// appendNumber is like the function appendNumber. b.buf must have room for the number.
func (b *Builder) appendNumber(n uint16) {
	at := len(b.buf)
	if n < 1<<7 {
		b.buf = b.buf[:at+1]
		b.buf[at] = byte(n)
		return
	}
	b.buf = b.buf[:at+2]
	b.buf[at], b.buf[at+1] = byte(n>>8)|1<<7, byte(n)
}

// grow makes room for n bytes.
//
//go:noinline
func (b *Builder) grow(n int) { b.buf = slices.Grow(b.buf, n) }

// String adds a String.
func (b *Builder) String(name, s string) { b.attribute(name, ValueString, s) }

// Bytes adds a Bytes attribute, whose value is not text.
func (b *Builder) Bytes(name, s string) { b.attribute(name, ValueBytes, s) }

// JSON adds an attribute that is a JSON text.
func (b *Builder) JSON(name, s string) { b.attribute(name, ValueJSON, s) }

// AnyValue adds an attribute that is the OTLP/JSON text of an AnyValue.
func (b *Builder) AnyValue(name, s string) { b.attribute(name, ValueAnyValue, s) }

func (b *Builder) attribute(name string, kind byte, s string) {
	size := len(s)
	if b.MaxText > 0 {
		size = min(size, b.MaxText)
	}
	b.name(name, 11+size)
	if b.Redact != nil {
		kind, s = b.redacted(name, kind, s)
	}
	if b.MaxText > 0 && len(s) > b.MaxText {
		b.cutValue(kind, s)
		return
	}
	b.buf = appendBytes(append(b.buf, kind), s)
}

// cutValue adds the beginning of a text. A JSON text that is cut becomes a String.
func (b *Builder) cutValue(kind byte, s string) {
	if kind == ValueBytes {
		s = s[:b.MaxText]
	} else {
		s, kind = b.cut(s), ValueString
		b.cutHead = false // cutHead is for texts of the head; Truncated below marks the entry
	}
	b.buf = appendBytes(append(b.buf, kind), s)
	b.Truncated()
}

// cut returns s, or its beginning if it is too large.
func (b *Builder) cut(s string) string {
	if b.MaxText == 0 || len(s) <= b.MaxText {
		return s
	}
	b.cutHead = true
	return text.Cut(s, b.MaxText)
}

// Hex adds an attribute whose value is the text of an id in hex digits.
func (b *Builder) Hex(name string, id []byte) {
	b.name(name, 11+len(id))
	b.buf = append(append(b.buf, ValueHex, byte(len(id))), id...)
}

// Bool adds a Bool.
func (b *Builder) Bool(name string, v bool) {
	b.name(name, 1)
	value := byte(ValueBool)
	if v {
		value |= 1 << 4
	}
	b.buf = append(b.buf, value)
}

// Float adds a Float; n is its bits, as math.Float64bits returns them.
func (b *Builder) Float(name string, n uint64) {
	b.name(name, 9)
	b.buf = binary.LittleEndian.AppendUint64(append(b.buf, ValueFloat), n)
}

// U64 adds a U64. The time of the record, see SetTime, is not written again.
func (b *Builder) U64(name string, n uint64) {
	if !journal.CoarseClock && n == uint64(b.time) && n != 0 && name == AttrTime && b.own {
		b.RecordTime()
		return
	}
	b.name(name, 9)
	b.integer(ValueU64, n)
}

// I64 adds an I64.
func (b *Builder) I64(name string, n int64) {
	b.name(name, 9)
	b.integer(ValueI64, uint64(n<<1)^uint64(n>>63))
}

// Duration adds an attribute whose value is d, in nanoseconds.
func (b *Builder) Duration(name string, d time.Duration) {
	b.name(name, 9)
	b.integer(ValueDuration, uint64(d<<1)^uint64(d>>63))
}

// integer appends n without its leading zeros. b.buf must have room for 9 bytes.
func (b *Builder) integer(kind byte, n uint64) {
	size, at := (bits.Len64(n)+7)/8, len(b.buf)
	b.buf = b.buf[:at+9]
	b.buf[at] = kind | byte(size)<<4
	binary.LittleEndian.PutUint64(b.buf[at+1:], n)
	b.buf = b.buf[:at+1+size]
}

// Wide adds an attribute with the value hi<<64 | lo. If signed is set, the value is a two's complement number.
func (b *Builder) Wide(name string, signed bool, hi, lo uint64) {
	b.name(name, 17)
	kind := byte(ValueU128)
	if signed {
		kind = ValueI128
	}
	b.buf = binary.LittleEndian.AppendUint64(append(b.buf, kind), lo)
	b.buf = binary.LittleEndian.AppendUint64(b.buf, hi)
}

// Value adds an attribute of one of the kinds of package wire. The argument text is the value of a String or Bytes;
// hi and lo are the two halves of an integer; lo alone is a Bool or the bits of a Float.
func (b *Builder) Value(name string, kind uint8, text string, hi, lo uint64) {
	switch kind {
	case wire.KindString:
		b.String(name, text)
	case wire.KindBytes:
		b.Bytes(name, text)
	case wire.KindBool:
		b.Bool(name, lo != 0)
	case wire.KindFloat:
		b.Float(name, lo)
	case wire.KindU64:
		b.U64(name, lo)
	case wire.KindI64:
		b.I64(name, int64(lo))
	default:
		b.Wide(name, kind == wire.KindI128, hi, lo)
	}
}

// Time adds an attribute with the time t. The placer stores it as a text in the format time.RFC3339Nano.
func (b *Builder) Time(name string, t time.Time) {
	b.name(name, 17)
	offset := 0
	if t.Location() != time.UTC {
		_, offset = t.Zone()
	}
	at := len(b.buf)
	b.buf = b.buf[:at+17]
	b.buf[at] = ValueTime
	binary.LittleEndian.PutUint64(b.buf[at+1:], uint64(t.Unix()))
	binary.LittleEndian.PutUint32(b.buf[at+9:], uint32(t.Nanosecond()))
	binary.LittleEndian.PutUint32(b.buf[at+13:], uint32(int32(offset)))
}

func appendNumber(b []byte, n uint16) []byte {
	if n < 1<<7 {
		return append(b, byte(n))
	}
	return append(b, byte(n>>8)|1<<7, byte(n))
}

func appendUvarint(b []byte, n uint64) []byte {
	if n < 1<<7 {
		return append(b, byte(n))
	}
	return binary.AppendUvarint(b, n)
}

func appendBytes(b []byte, s string) []byte { return append(appendUvarint(b, uint64(len(s))), s...) }
