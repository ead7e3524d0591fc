package otlp

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"

	"github.com/entrace-go/entrace/convert/internal/input"
	"github.com/entrace-go/entrace/internal/otel/codec"
)

// An index is the result of the first pass over an input. It holds the offset of each span and log record, and
// the span above each. It takes 24 bytes for each record, and about 40 more for each span.
type index struct {
	b       []byte // the input
	records input.List[record]
	scoped  int // how many records have a scope
	held    int // how many records have a resource
	groups  []group
	scopes  heads
	holders heads // of the resources
	slots   slots
	twice   map[uint32]times // by the record number of the first of several spans with the same ids
	groupOf map[group]uint32
}

// A record is a span or a log record.
type record struct {
	off   int64  // the offset in the input
	up    uint32 // the slot of the parent span, 0: none
	group uint32 // the scope once the end of the scope is read; the group once the resource ends
	id    uint32 // the id of the entry; 0 until the entry is written
	log   bool
	state state
}

// A state is the progress of the second pass with a record.
type state uint8

const (
	pending state = iota
	waiting       // for its parent
	written
	failed // the record cannot be read
)

// times holds the start of a span, and its duration if it has ended.
type times struct {
	known, ended    bool
	start, duration int64
}

// A group identifies the spans of one resource and one scope.
type group struct{ resource, scope uint32 }

// heads holds all distinct heads.
type heads struct {
	all  []codec.Head
	of   map[[sha256.Size]byte]uint32
	last uint32
}

// add returns the number of a head, and adds the head if it is new.
func (hs *heads) add(b []byte, h codec.Head) uint32 {
	value, url := h.Bytes(b)
	if len(hs.all) > 0 {
		// Most often the head is the same as the previous one.
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

// slot returns the slot of a span, 0 for a span without an id.
func (ix *index) slot(trace *[16]byte, span *[8]byte) uint32 {
	if *span == [8]byte{} || *trace == [16]byte{} {
		return 0
	}
	var key spanKey
	copy(key[:16], trace[:])
	copy(key[16:], span[:])
	return ix.slots.find(&key)
}

// Span adds a span. If several spans have the same ids, their children belong to the first.
func (ix *index) Span(off int64, trace *[16]byte, span, parent *[8]byte) {
	own := ix.slot(trace, span)
	ix.records.Add(record{off: off, up: ix.slot(trace, parent)})
	if own != 0 {
		if s := ix.slots.all.At(int(own)); s.record == 0 {
			s.record = uint32(ix.records.Len())
		} else {
			ix.twice[s.record] = times{}
		}
	}
}

// Log adds a log record.
func (ix *index) Log(off int64, trace *[16]byte, span *[8]byte) {
	ix.records.Add(record{off: off, up: ix.slot(trace, span), log: true})
}

// EndScope sets the scope of the records since the last call.
func (ix *index) EndScope(h codec.Head) {
	scope := ix.scopes.add(ix.b, h)
	for ; ix.scoped < ix.records.Len(); ix.scoped++ {
		ix.records.At(ix.scoped).group = scope
	}
}

// EndResource sets the resource of the records since the last call.
func (ix *index) EndResource(h codec.Head) {
	last := group{resource: ix.holders.add(ix.b, h)}
	n, known := uint32(0), false
	for ; ix.held < ix.records.Len(); ix.held++ {
		r := ix.records.At(ix.held)
		if !known || last.scope != r.group {
			last.scope = r.group
			if n, known = ix.groupOf[last]; !known {
				n, known = uint32(len(ix.groups)), true
				ix.groups = append(ix.groups, last)
				ix.groupOf[last] = n
			}
		}
		r.group = n
	}
}

// parent returns the record of the parent span of r, nil if that span is not in the input.
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
