package format

import "encoding/binary"

// The records in which a recorder is told what to write. They are what its crash
// buffer holds, package segment has the framing.
//
//	record {
//		commit   uint64     // the segment's
//		key      int64      // time, in nanoseconds since 1970
//		kind     uint8
//		flags    uint8
//		provider uint8
//		reserved uint8
//		resource uint32     // its number
//		entries  []{size, head uint32; body [size]byte} // until size is 0
//		padding             // to a multiple of 8
//		ref      SpanRef    // with flagRef
//		parent   SpanRef    // with flagParent
//	}
//
// A body is an entry without its parent, as it lies in the file; head is where in
// it the number of attributes is.

// Kinds of records. Part of the crash buffer's format.
const (
	opLog    = 1
	opSpan   = 2
	opEnd    = 3
	opEither = 4
	opMore   = 8 // entries below a span, which goes on
	opMark   = 9 // of a ring: a span has ended, its end is given up

	// Those of the ledger.
	opPark     = 5 // the record of a span that waits, behind this header
	opUnpark   = 6 // key: the position of one that does not wait any more
	opResource = 7 // resource: a number, key: the id of its entry
)

// Flags of records. Part of the crash buffer's format.
const (
	flagRef    = 1
	flagParent = 2
	flagRemote = 4
	flagWait   = 8
	flagOpen   = 16
)

const (
	recordHead = 24
	bodyHead   = 8
	refSize    = 24
)

// A record is a view of one.
type record struct {
	key         int64
	kind, flags byte
	provider    Provider
	resource    uint32
	ref, parent SpanRef
	bodies      []byte
}

// parse reads a record without its commit word.
func (o *record) parse(data []byte) bool {
	const head = recordHead - 8
	if len(data) < head {
		return false
	}
	o.key = int64(binary.LittleEndian.Uint64(data))
	o.kind, o.flags, o.provider = data[8], data[9], Provider(data[10])
	o.resource = binary.LittleEndian.Uint32(data[12:])
	end := len(data)
	o.ref, o.parent = SpanRef{}, SpanRef{}
	if o.flags&flagParent != 0 {
		end -= refSize
		if end < head {
			return false
		}
		o.parent.set(data[end:])
	}
	if o.flags&flagRef != 0 {
		end -= refSize
		if end < head {
			return false
		}
		o.ref.set(data[end:])
	}
	o.bodies = data[head:end]
	return true
}

// A head is what a look at a record tells of it: of most of those that are given
// up that is enough.
type head struct {
	kind, flags byte
	resource    uint32
	ref         *[refSize]byte // in the record; only with flagRef
}

// headOf is parse of that much.
func headOf(data []byte) (h head, ok bool) {
	const least = recordHead - 8
	if len(data) < least {
		return h, false
	}
	h.kind, h.flags, h.resource = data[8], data[9], binary.LittleEndian.Uint32(data[12:])
	if h.flags&flagRef == 0 {
		return h, true
	}
	at := len(data) - refSize
	if h.flags&flagParent != 0 {
		at -= refSize
	}
	if at < least {
		return h, false
	}
	h.ref = (*[refSize]byte)(data[at:])
	return h, true
}

func (s *SpanRef) set(b []byte) {
	copy(s.TraceID[:], b[:16])
	copy(s.SpanID[:], b[16:24])
}

// next takes the first body of bodies.
func nextBody(bodies []byte) (body []byte, head int, rest []byte, ok bool) {
	if len(bodies) < bodyHead {
		return nil, 0, nil, false
	}
	n := int64(binary.LittleEndian.Uint32(bodies))
	head = int(binary.LittleEndian.Uint32(bodies[4:]))
	if n == 0 || n > int64(len(bodies)-bodyHead) || int64(head) >= n {
		return nil, 0, nil, false
	}
	return bodies[bodyHead : bodyHead+n], head, bodies[bodyHead+n:], true
}

// countBodies returns how many bodies there are.
func countBodies(bodies []byte) int {
	n := 0
	for {
		_, _, rest, ok := nextBody(bodies)
		if !ok {
			return n
		}
		bodies = rest
		n++
	}
}

// appendBelow appends the entry that body is, below parent.
func appendBelow(b []byte, parent uint32, body []byte) []byte {
	return append(appendUint(b, uint64(parent)), body...)
}

// appendMarked is appendBelow with up to two more attributes that tell where the
// entry belongs. They are Strings, sorted by name.
func appendMarked(b []byte, v Version, parent uint32, body []byte, head int, marks []mark) []byte {
	b = append(appendUint(b, uint64(parent)), body[:head]...)
	d := decoder{version: v, maxSize: len(body)}
	d.reset(body, 0, NoEntry)
	d.off = head
	n := d.Uint("", 32)
	b = appendUint(b, n+uint64(len(marks)))
	if !v.hasAttrColumns() {
		for i := len(marks) - 1; i >= 0; i-- { // the trace first
			b = appendString(b, marks[i].name)
			b = marks[i].appendValue(b)
		}
		return append(b, body[d.off:]...)
	}
	// The marks go before the first name that is not less.
	var at [maxOptional]uint64 // before which of the names
	from, k := d.off, 0
	for i := range n {
		start := d.off
		size := d.Len("", 1)
		name := body[d.off : d.off+size]
		d.off += size
		for k < len(marks) && string(name) >= marks[k].name {
			b = appendString(append(b, body[from:start]...), marks[k].name)
			from, at[k] = start, i
			k++
		}
	}
	b = append(b, body[from:d.off]...)
	for ; k < len(marks); k++ {
		b, at[k] = appendString(b, marks[k].name), n
	}
	d.Uint("", 32)
	b = appendUint(b, n+uint64(len(marks)))
	from, k = d.off, 0
	for i := uint64(0); i < n && k < len(marks); i++ {
		for k < len(marks) && at[k] == i {
			b = marks[k].appendValue(append(b, body[from:d.off]...))
			from = d.off
			k++
		}
		d.skipValue("")
	}
	b = append(b, body[from:]...)
	for ; k < len(marks); k++ {
		b = marks[k].appendValue(b)
	}
	return b
}

// maxOptional is how many marks an entry has at most: a trace id and a span id.
const maxOptional = 2

// A mark is an attribute that tells where an entry belongs that is not below its
// span.
type mark struct {
	name string
	id   []byte
}

func (m *mark) appendValue(b []byte) []byte {
	return AppendHex(appendUint(append(b, byte(KindString)), uint64(2*len(m.id))), m.id)
}
