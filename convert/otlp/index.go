package otlp

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"

	"github.com/entrace-go/entrace/convert/internal/input"
	"github.com/entrace-go/entrace/internal/otel"
	"github.com/entrace-go/entrace/internal/otel/codec"
)

// An index is the result of reading an input for the first time. It holds the offset and the parent of each span
// and log record. It needs 24 bytes for each record, and about 40 more for each span.
type index struct {
	b       []byte // the input
	records input.List[record]
	scoped  int // number of records whose scope is known
	held    int // number of records whose resource is known
	groups  []group
	scopes  heads
	holders heads // heads of resources
	slots   slots
	twice   map[uint32]bool // the record numbers of spans whose ids a later span has, too
	groupOf map[group]uint32
}

// A record is a span or a log record.
type record struct {
	off   int64  // offset in the input
	up    uint32 // slot of the parent span; 0: none
	group uint32 // until the end of the resource was read: its scope; after that: its group
	id    uint32 // id of its entry; 0: not written yet
	log   bool
	state state
}

// A state is the progress of a record in the second reading.
type state uint8

const (
	pending state = iota
	waiting       // its parent must be written first
	written
	failed // it cannot be read
)

// A sending has all that is equal if a sender sends a span again.
type sending struct {
	first           uint32 // record number of the first span with these ids
	resource        uint32
	kind            otel.SpanKind
	ended           bool
	start, duration int64
}

// A group is a resource and a scope.
type group struct{ resource, scope uint32 }

// heads holds the different heads of resources or scopes.
type heads struct {
	all  []codec.Head
	of   map[[sha256.Size]byte]uint32
	last uint32
}

// add returns the number of the head h in b. It adds h if it is new.
func (hs *heads) add(b []byte, h codec.Head) uint32 {
	value, url := h.Bytes(b)
	if len(hs.all) > 0 {
		// Usually the head is equal to the last one.
		v, u := hs.all[hs.last].Bytes(b)
		if bytes.Equal(v, value) && bytes.Equal(u, url) {
			return hs.last
		}
	}
	sum := sha256.New()
	sum.Write(binary.LittleEndian.AppendUint64(nil, uint64(len(value))))
	sum.Write(value)
	sum.Write(url)
	var key [sha256.Size]byte
	sum.Sum(key[:0])
	n, known := hs.of[key]
	if !known {
		if hs.of == nil {
			hs.of = make(map[[sha256.Size]byte]uint32)
		}
		n = uint32(len(hs.all))
		hs.all = append(hs.all, h)
		hs.of[key] = n
	}
	hs.last = n
	return n
}

// slot returns the slot of a span, or 0 for a span without an id.
func (ix *index) slot(trace *[16]byte, span *[8]byte) uint32 {
	if *span == [8]byte{} || *trace == [16]byte{} {
		return 0
	}
	var key spanKey
	copy(key[:16], trace[:])
	copy(key[16:], span[:])
	return ix.slots.find(&key)
}

// Span adds a span. If several spans have the same ids, the first one is the parent of their children.
func (ix *index) Span(off int64, trace *[16]byte, span, parent *[8]byte) {
	own := ix.slot(trace, span)
	ix.records.Add(record{off: off, up: ix.slot(trace, parent)})
	if own != 0 {
		if s := ix.slots.all.At(int(own)); s.record == 0 {
			s.record = uint32(ix.records.Len())
		} else {
			ix.twice[s.record] = true
		}
	}
}

// Log adds a log record.
func (ix *index) Log(off int64, trace *[16]byte, span *[8]byte) {
	ix.records.Add(record{off: off, up: ix.slot(trace, span), log: true})
}

// EndScope sets the scope of all records since the last call.
func (ix *index) EndScope(h codec.Head) {
	scope := ix.scopes.add(ix.b, h)
	for ; ix.scoped < ix.records.Len(); ix.scoped++ {
		ix.records.At(ix.scoped).group = scope
	}
}

// EndResource sets the resource of all records since the last call.
func (ix *index) EndResource(h codec.Head) {
	last := group{resource: ix.holders.add(ix.b, h)}
	n, known := uint32(0), false
	for ; ix.held < ix.records.Len(); ix.held++ {
		r := ix.records.At(ix.held)
		if !known || last.scope != r.group {
			last.scope = r.group
			n, known = ix.groupOf[last]
			if !known {
				n, known = uint32(len(ix.groups)), true
				ix.groups = append(ix.groups, last)
				ix.groupOf[last] = n
			}
		}
		r.group = n
	}
}

// parent returns the record of the parent span of r, or nil if this span is not in the input.
func (ix *index) parent(r *record) *record {
	if r.up == 0 {
		return nil
	}
	n := ix.slots.all.At(int(r.up)).record
	if n == 0 {
		return nil
	}
	return ix.records.At(int(n - 1))
}
