package view

import (
	"bytes"
	"encoding/binary"
	"math"
	"math/bits"
	"slices"
	"time"

	"github.com/entrace-go/entrace/format"
	"github.com/entrace-go/entrace/internal/core/mapping"
	"github.com/entrace-go/entrace/internal/core/wire"
	"github.com/entrace-go/entrace/internal/otel"
	"github.com/entrace-go/entrace/internal/read/columns"
)

// A record holds the fields that a parser extracts from an entry.
type record struct {
	start, duration int64
	parent          uint32 // the id of the parent entry
	text            uint32 // for a span the low half of its id, otherwise the number of the message
	flags           uint32 // a Flags value and the record bits
	meta, shape     uint16
}

// The bits of record.flags above the Flags.
const (
	recordIsEnd     = 1 << (16 + iota) // ends its parent, if the parent is a span
	recordHasStatus                    // has a status, even one that OTLP does not define
	recordHasKind
	recordHasTook  // has a duration
	recordRenames  // is an end with a new name for its span
	recordPlaces   // is an end with a source location
	recordIsMarked // is an event, if its parent is not a span
	recordTraces   // has a trace id
	recordWants    // names a span as its parent
	recordExcepts  // is an exception event
)

// maxAlone is the longest duration that is accepted for a span without a start. A larger number is the time of the
// span's end since 1970.
const maxAlone = int64(365 * 24 * time.Hour)

// A field identifies an attribute that has a meaning for the view.
type field uint8

const (
	fieldNone field = iota
	fieldTrace
	fieldSpan
	fieldParent
	fieldTime
	fieldTook
	fieldKind
	fieldStatus
	fieldEvent
	fieldLink
	fieldContinued
)

var fieldOf = map[string]field{
	format.AttrTraceID: fieldTrace, format.AttrSpanID: fieldSpan, format.AttrParentSpanID: fieldParent,
	format.AttrTime: fieldTime, format.AttrDuration: fieldTook, mapping.AttrKind: fieldKind, mapping.AttrStatusCode: fieldStatus,
	mapping.AttrEvent: fieldEvent, mapping.AttrLinkTraceID: fieldLink, mapping.AttrContinued: fieldContinued,
}

// A chunk holds the records of consecutive entries of one file.
type chunk struct {
	file        int
	first, last uint32 // the entries [first, last)
	records     []record
	traces      [][16]byte        // of the records with recordTraces, in order
	wants       []uint64          // the span ids of the records with recordWants, in order
	names       []string          // of the records with recordRenames, in order
	places      []format.Metadata // of the records with recordPlaces, in order
	parser      *parser           // the parser whose numbers the records contain
	metas       []string          // the metas, messages and shapes of the parser that can occur in records
	messages    []string
	shapes      []*shape
	err         error // the reason why there are fewer records than entries
}

func (c *chunk) reset(file int, first, last uint32) {
	c.file, c.first, c.last, c.err = file, first, last, nil
	c.records, c.traces, c.wants, c.names, c.places = c.records[:0], c.traces[:0], c.wants[:0], c.names[:0], c.places[:0]
}

const (
	// chunkSize is the approximate size of a chunk in bytes. It fits into the cache of a processor core.
	chunkSize = 1 << 20
	// chunkEntries is the maximum number of entries of a chunk.
	chunkEntries = 1 << 14
)

// Limits of the memory of one parser. Data that does not fit is read from the file again when it is needed.
const (
	maxMessages    = 1 << 16
	maxMessageSize = 4 << 20 // of all messages
	maxTextSize    = 1 << 10 // of one message
	maxMetaSize    = 8 << 20
	maxPlaceSize   = 8 << 10 // of one head
	maxNodes       = 1 << 16
	maxNodeSize    = 4 << 20
	maxPathSize    = 1 << 18
)

// A parser converts entries to records. It assigns numbers to parts that many entries have in common: the head of
// an entry (its fields from the name to the line), the names of its attributes, and its message.
//
// A parser is not safe for concurrent use.
type parser struct {
	metas    []string // encoded
	metaOf   map[string]uint16
	metaSize int
	recent   [1024]struct {
		meta string
		id   uint16
	}
	last []*shape // by meta: the shape of its last entry

	messages      []string
	messageOf     map[string]uint32
	messageSize   int
	recentMessage [1024]struct {
		text string
		id   uint32
	}

	shapes   []*shape
	root     *node
	nodes    int
	nodeSize int
	pathSize int // the number of names in all shapes
}

func newParser() *parser {
	return &parser{
		metaOf: make(map[string]uint16), messageOf: make(map[string]uint32),
		messages: []string{""}, root: &node{kids: make(map[string]*node)},
	}
}

// A shape is the list of the attribute names of an entry, in order.
type shape struct {
	id    uint16
	names []byte // encoded, one after the other
	path  []*node
}

// A node is a name in the parser's tree of attribute names. The names on the path from the root to the node
// precede the node's name.
type node struct {
	name  []byte // encoded
	field field
	up    *node
	kids  map[string]*node
	last  *node // the child that was used most recently
	shape *shape
}

func (n *node) is(b []byte, p int) bool {
	return len(n.name) <= len(b)-p && string(b[p:p+len(n.name)]) == string(n.name)
}

// hash returns a fast hash of the length and a few bytes of s.
func hash(s []byte) uint32 {
	n := len(s)
	h := uint64(n) * 0x9e3779b97f4a7c15
	if n >= 8 {
		h ^= binary.LittleEndian.Uint64(s)
		h *= 0xff51afd7ed558ccd
		h ^= h >> 29
		h += binary.LittleEndian.Uint64(s[n-8:])
		h ^= binary.LittleEndian.Uint64(s[n/2-4:]) << 1
	} else {
		for _, c := range s {
			h = h*31 + uint64(c)
		}
	}
	return uint32(h * 0xc4ceb9fe1a85ec53 >> 40)
}

// meta returns the number of the encoded head s.
func (w *parser) meta(s []byte) uint16 {
	c := &w.recent[hash(s)%uint32(len(w.recent))]
	if c.meta == string(s) {
		return c.id
	}
	id, ok := w.metaOf[string(s)]
	if !ok {
		if len(w.metas) >= unknown || len(s) > maxPlaceSize || w.metaSize+len(s) > maxMetaSize {
			return unknown
		}
		id = uint16(len(w.metas))
		text := string(s)
		w.metas, w.last = append(w.metas, text), append(w.last, nil)
		w.metaOf[text] = id
		w.metaSize += len(text)
	}
	c.meta, c.id = w.metas[id], id
	return id
}

// message returns the number of a message.
func (w *parser) message(s []byte) uint32 {
	if len(s) > maxTextSize {
		return unknownText
	}
	c := &w.recentMessage[hash(s)%uint32(len(w.recentMessage))]
	if c.id != 0 && c.text == string(s) {
		return c.id
	}
	id, ok := w.messageOf[string(s)]
	if !ok {
		if len(w.messages) >= maxMessages || w.messageSize+len(s) > maxMessageSize {
			return unknownText
		}
		id = uint32(len(w.messages))
		text := string(s)
		w.messages = append(w.messages, text)
		w.messageOf[text] = id
		w.messageSize += len(text)
	}
	c.text, c.id = w.messages[id], id
	return id
}

// step returns the child of n for the name at b[p:end]. It returns nil if a new node would exceed a limit.
func (w *parser) step(n *node, b []byte, p, end int) *node {
	if k := n.last; k != nil && k.is(b, p) {
		return k
	}
	k, ok := n.kids[string(b[p:end])]
	if !ok {
		if w.nodes >= maxNodes || w.nodeSize+end-p > maxNodeSize {
			return nil
		}
		name := bytes.Clone(b[p:end])
		k = &node{name: name, up: n, field: fieldOf[nameIn(name)]}
		w.nodes++
		w.nodeSize += len(name)
		if n.kids == nil {
			n.kids = make(map[string]*node)
		}
		n.kids[string(name)] = k
	}
	n.last = k
	return k
}

// nameIn returns the name whose encoding is b.
func nameIn(b []byte) string {
	if len(b) == 0 {
		return ""
	}
	return string(wire.TextAt(b, 0, len(b)))
}

// shapeOf returns the shape that ends with the name at n.
func (w *parser) shapeOf(n *node) *shape {
	if n.shape != nil {
		return n.shape
	}
	s := &shape{id: unknown}
	for k := n; k != w.root; k = k.up {
		s.path = append(s.path, k)
	}
	slices.Reverse(s.path)
	for _, k := range s.path {
		s.names = append(s.names, k.name...)
	}
	if len(w.shapes) >= unknown || w.pathSize+len(s.path) > maxPathSize {
		return s
	}
	s.id = uint16(len(w.shapes))
	w.shapes = append(w.shapes, s)
	w.pathSize += len(s.path)
	n.shape = s
	return s
}

// values holds the attributes of an entry that have a meaning for the view. If an attribute occurs twice, the first
// value counts.
type values struct {
	trace, span, parent, kind, status []byte // nil if missing
	time, took                        uint64
	timeKind, tookKind                wire.Kind // KindString if the attribute is missing or not a number
	event, link, continued            bool
	seen                              uint16 // a bit for each field that was read
}

// text returns the text at p, or nil if the value is not a text. It also returns the offset after the value.
func text(b []byte, p int) ([]byte, int) {
	if p+1 < len(b) && b[p] <= wire.KindBytes && b[p+1] < wire.Tag16 {
		if end := p + 2 + int(b[p+1]); end <= len(b) {
			return b[p+2 : end : end], end
		}
	}
	end := wire.SkipValues(b, p, 1)
	if end > len(b) || b[p] > wire.KindBytes {
		return nil, end
	}
	_, at := wire.Uint32(b, p+1)
	return b[at:end:end], end
}

// number returns the number at p, its kind, and the offset after it. The kind is KindU64 or KindI64, or KindString if
// the value is not a number, or needs more than 64 bits.
func number(b []byte, p int) (uint64, wire.Kind, int) {
	end := wire.SkipValues(b, p, 1)
	if end > len(b) {
		return 0, wire.KindString, end
	}
	kind := wire.KindU64
	switch b[p] {
	case wire.KindU64, wire.KindU128:
	case wire.KindI64, wire.KindI128:
		kind = wire.KindI64
	default:
		return 0, wire.KindString, end
	}
	switch b[p+1] {
	case wire.Tag16:
		return uint64(binary.LittleEndian.Uint16(b[p+2:])), kind, end
	case wire.Tag32:
		return uint64(binary.LittleEndian.Uint32(b[p+2:])), kind, end
	case wire.Tag64:
		return binary.LittleEndian.Uint64(b[p+2:]), kind, end
	case wire.Tag128:
		lo, hi := binary.LittleEndian.Uint64(b[p+2:]), binary.LittleEndian.Uint64(b[p+10:])
		switch {
		case hi == 0:
			return lo, kind, end
		case hi == 1 && lo&1 == 0 && kind == wire.KindI64: // a positive number of 64 bits without the sign
			return lo>>1 | 1<<63, wire.KindU64, end
		}
		return 0, wire.KindString, end
	}
	return uint64(b[p+1]), kind, end
}

// isTrue reports whether the value at p is true. It also returns the offset after the value.
func isTrue(b []byte, p int) (bool, int) {
	end := wire.SkipValues(b, p, 1)
	return end <= len(b) && b[p] == wire.KindBool && b[p+1] == 1, end
}

// value reads the value of field f at p, and returns the offset after the value.
func (v *values) value(b []byte, p int, f field) int {
	if f == fieldNone || v.seen&(1<<f) != 0 {
		return wire.SkipValues(b, p, 1)
	}
	v.seen |= 1 << f
	end := p
	switch f {
	case fieldTime:
		v.time, v.timeKind, end = number(b, p)
	case fieldTook:
		v.took, v.tookKind, end = number(b, p)
	case fieldSpan:
		v.span, end = text(b, p)
	case fieldTrace:
		v.trace, end = text(b, p)
	case fieldParent:
		v.parent, end = text(b, p)
	case fieldKind:
		v.kind, end = text(b, p)
	case fieldStatus:
		v.status, end = text(b, p)
	case fieldEvent:
		v.event, end = isTrue(b, p)
	case fieldContinued:
		v.continued, end = isTrue(b, p)
	case fieldLink:
		end = wire.SkipValues(b, p, 1)
		v.link = true
	}
	return end
}

// attributes reads the n attributes at p. The parameter guess is their probable shape, or nil. The first result is
// their shape, or nil if a new shape would exceed a limit. The second result is the offset after the attributes, or
// wire.Nowhere if they are not in the usual form.
func (w *parser) attributes(b []byte, p, n int, guess *shape, v *values) (*shape, int) {
	i, at := 0, w.root
	if guess != nil {
		for _, k := range guess.path[:min(n, len(guess.path))] {
			if !k.is(b, p) {
				break
			}
			p = v.value(b, p+len(k.name), k.field)
			if p > len(b) {
				return nil, wire.Nowhere
			}
			at = k
			i++
		}
		if i == n && i == len(guess.path) {
			return guess, p
		}
	}
	for ; i < n; i++ {
		end := wire.SkipText(b, p)
		if end > len(b) {
			return nil, wire.Nowhere
		}
		var f field
		if at != nil {
			at = w.step(at, b, p, end)
		}
		if at != nil {
			f = at.field
		} else {
			f = fieldOf[nameIn(b[p:end])]
		}
		p = v.value(b, end, f)
		if p > len(b) {
			return nil, wire.Nowhere
		}
	}
	if at == nil {
		return nil, p
	}
	return w.shapeOf(at), p
}

// attributesV2 does the same as attributes for version 2 of the format, in which all names precede all values.
func (w *parser) attributesV2(b []byte, p, n int, guess *shape, v *values) (*shape, int) {
	s := guess
	var fields []field // nil if the shape is known
	if s != nil && len(s.path) == n && len(s.names) <= len(b)-p && string(b[p:p+len(s.names)]) == string(s.names) {
		p += len(s.names)
	} else {
		at := w.root
		for range n {
			end := wire.SkipText(b, p)
			if end > len(b) {
				return nil, wire.Nowhere
			}
			if at != nil {
				at = w.step(at, b, p, end)
			}
			if at == nil {
				fields = append(fields, fieldOf[nameIn(b[p:end])])
			} else {
				fields = append(fields, at.field)
			}
			p = end
		}
		s = nil
		if at != nil {
			s = w.shapeOf(at)
		}
	}
	count, p := wire.Count(b, p)
	if count != n {
		return nil, wire.Nowhere
	}
	for i := range n {
		var f field
		if s != nil {
			f = s.path[i].field
		} else {
			f = fields[i]
		}
		p = v.value(b, p, f)
		if p > len(b) {
			return nil, wire.Nowhere
		}
	}
	return s, p
}

var (
	prefixEvent    = []byte("event")
	prefixRecorder = []byte("entrace.")
)

// parse adds the record of entry id, which is b[p:end], to c. If columns is set, the entry has version 2. If the
// entry is not in the usual form, parse returns false and adds nothing.
func (w *parser) parse(c *chunk, b []byte, p, end int, id uint32, columns bool) bool {
	b = b[:end]
	var l wire.Layout
	n, at := wire.Count(b, l.Parse(b, p))
	if at > end || l.Parent >= id && id > 0 || id == 0 && l.Parent != 0 {
		return false
	}
	metaEnd := l.Line + 1
	if b[l.Line] == 1 {
		_, metaEnd = wire.Uint32(b, l.Line+1)
	}
	meta := w.meta(b[l.Name:metaEnd])
	var guess *shape
	if meta != unknown {
		guess = w.last[meta]
	}
	var v values
	var s *shape
	if columns {
		s, at = w.attributesV2(b, at, n, guess, &v)
	} else {
		s, at = w.attributes(b, at, n, guess, &v)
	}
	if at != end {
		return false
	}
	if meta != unknown {
		w.last[meta] = s
	}
	r := record{parent: l.Parent, meta: meta, shape: unknown, start: noTime, duration: noTook}
	if s != nil {
		r.shape = s.id
	}
	w.add(c, r, b[:metaEnd], &l, id, &v)
	return true
}

// add completes the record r of entry id, and adds it to c. The head of the entry, with the offsets l, is the end of b.
func (w *parser) add(c *chunk, r record, b []byte, l *wire.Layout, id uint32, v *values) {
	name, hasMessage := wire.TextAt(b, l.Name, l.Target), b[l.Message] == 1
	var message []byte
	if hasMessage {
		message = wire.TextAt(b, l.Message+1, l.Name)
	}
	flags := uint32(b[l.Level]) << levelShift
	switch v.timeKind {
	case wire.KindU64:
		r.start = int64(min(v.time, math.MaxInt64))
	case wire.KindI64:
		r.start = int64(v.time>>1) ^ -int64(v.time&1)
	}
	var span uint64
	hasSpan := len(v.span) == 16
	if hasSpan {
		span, hasSpan = hexDigits(v.span)
	}
	if len(v.trace) == 32 {
		hi, ok := hexDigits(v.trace[:16])
		lo, ok2 := hexDigits(v.trace[16:])
		if ok && ok2 {
			var id [16]byte
			binary.BigEndian.PutUint64(id[:], hi)
			binary.BigEndian.PutUint64(id[8:], lo)
			c.traces = append(c.traces, id)
			flags |= recordTraces
		}
	}
	if v.tookKind == wire.KindU64 || v.tookKind == wire.KindI64 && v.took&1 == 0 {
		took := v.took
		if v.tookKind == wire.KindI64 {
			took >>= 1
		}
		r.duration = int64(min(took, math.MaxInt64))
		flags |= recordHasTook
	}
	kind := uint32(otel.KindInternal)
	if v.kind != nil {
		if k, ok := otel.ParseSpanKind(string(v.kind)); ok {
			kind = uint32(k)
		}
		flags |= recordHasKind
	}
	flags |= kind << columns.KindShift
	if v.status != nil {
		flags |= recordHasStatus
		switch string(v.status) {
		case "OK":
			flags |= uint32(otel.StatusOK) << columns.StatusShift
		case "ERROR":
			flags |= uint32(otel.StatusError) << columns.StatusShift
		}
	}
	if v.continued {
		flags |= flagContinued
	}
	role := RoleOther
	switch {
	case id == 0:
		role = RoleRoot
	case hasMessage && bytes.HasPrefix(name, prefixEvent):
		role = RoleLog
		if columns.Status(uint16(flags)) == uint8(otel.StatusError) {
			flags |= recordExcepts // the log record is about a request that failed
		}
		if hasSpan {
			c.wants = append(c.wants, span)
			flags |= recordWants
		}
	case hasSpan && !hasMessage && r.start != noTime:
		role = RoleSpan
		r.text = uint32(span)
		if r.start == 0 { // the start is unknown, as in OTLP
			r.start = noTime
			if r.duration > maxAlone { // r.duration is the time of the end since 1970, not a duration
				r.duration = 0
			}
		}
		if len(v.parent) == 16 {
			if up, ok := hexDigits(v.parent); ok {
				c.wants = append(c.wants, up)
				flags |= recordWants
			}
		}
		if r.duration == noTook {
			flags |= flagOpen
		}
	case hasSpan && r.start == noTime && string(name) == format.NameSpanEnd:
		flags |= recordIsEnd
		if hasMessage {
			flags |= recordRenames
			c.names = append(c.names, string(message))
		}
		if b[l.Module] == 1 || b[l.File] == 1 || b[l.Line] == 1 {
			flags |= recordPlaces
			c.places = append(c.places, metadataOf(b[l.Name:]))
		}
	case r.parent == 0 && string(name) == format.NameResource:
		role = RoleResource
	case r.parent == 0 && bytes.HasPrefix(name, prefixRecorder):
		role = RoleRecorder
	}
	if role == RoleOther {
		switch {
		case v.event && flags&recordIsEnd != 0:
			flags |= recordIsMarked
		case v.event:
			role = RoleEvent
			if string(name) == mapping.NameException {
				flags |= recordExcepts
			}
		case v.link && string(name) == mapping.NameLink:
			role = RoleLink
		}
	}
	if hasMessage {
		flags |= flagMessage
		r.text = w.message(message)
	}
	r.flags = flags | uint32(role)
	c.records = append(c.records, r)
}

// maxUsual is the maximum size of a text that the encoding in the usual form does not cut. A longer text is too long
// for every table of the parser.
const maxUsual = 1<<16 - 1

// usual encodes an entry in the usual form of version 1. It cuts texts that are too long. If it had to omit an
// attribute because of its name, whole is false.
func usual(e *format.TraceEntry) (b []byte, whole bool) {
	m := &e.Metadata
	for _, s := range []*string{&e.Message.Value, &m.Name, &m.Target, &m.ModulePath.Value, &m.File.Value} {
		*s = (*s)[:min(len(*s), maxUsual)]
	}
	n := len(e.Attributes)
	e.Attributes = slices.DeleteFunc(e.Attributes, func(a format.Attribute) bool { return len(a.Name) > maxUsual })
	return format.AppendTraceEntry(nil, format.V1, e), len(e.Attributes) == n
}

// inUsualForm returns the entry b in the usual form of version 1, or nil if b cannot be decoded. If columns is set, b
// has version 2.
func inUsualForm(b []byte, columns bool) []byte {
	version := format.V1
	if columns {
		version = format.V2
	}
	var e format.TraceEntry
	if _, err := format.DecodeTraceEntry(b, version, &e); err != nil {
		return nil
	}
	b, _ = usual(&e)
	return b
}

// metadataOf decodes a head of parser.metas. It ignores the level.
func metadataOf(b []byte) format.Metadata {
	b = append(bytes.Clone(b), 0, 0) // SkipText reads beyond the end
	p := 0
	next := func() string {
		at := p
		p = wire.SkipText(b, at)
		return string(wire.TextAt(b, at, p))
	}
	m := format.Metadata{Name: next(), Target: next()}
	p++ // skip the level
	for _, o := range []*format.Optional[string]{&m.ModulePath, &m.File} {
		p++
		if b[p-1] == 1 {
			*o = format.Some(next())
		}
	}
	if b[p] == 1 {
		n, _ := wire.Uint32(b, p+1)
		m.Line = format.Some(n)
	}
	return m
}

// hexDigits parses the first 16 bytes of s, which are hexadecimal digits.
func hexDigits(s []byte) (uint64, bool) {
	hi, ok := hex8(binary.LittleEndian.Uint64(s))
	lo, ok2 := hex8(binary.LittleEndian.Uint64(s[8:]))
	return uint64(hi)<<32 | uint64(lo), ok && ok2
}

// hex8 parses eight hexadecimal digits. The lowest byte of x is the first digit.
func hex8(x uint64) (uint32, bool) {
	const ones = 0x0101010101010101
	letters := x >> 6 & ones // 1 in each byte that can only be a letter
	n := x&(0xf*ones) + 9*letters
	// Check that n in lower-case digits gives x again, that letters stand for 10 to 15, and that digits stand for
	// less than 10.
	same := 0x30*ones+n+0x27*letters == x|letters<<5
	range10 := (n+6*ones)>>4&ones == letters && n&(0x10*ones) == 0
	n = n&0x00ff00ff00ff00ff<<4 | n>>8&0x00ff00ff00ff00ff
	n = (n | n>>8) & 0x0000ffff0000ffff
	return bits.ReverseBytes32(uint32(n | n>>16)), same && range10
}
