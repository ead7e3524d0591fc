package otlp

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
)

// An index is the result of the first pass over an input: where its spans and log
// records are, and which span each of them belongs below. It takes 24 bytes for
// each of them, and about 40 more for each span.
type index struct {
	records list[record]
	groups  []group
	scopes  heads
	holders heads // of resources
	slots   slots
	groupOf map[group]uint32
}

// A record is a span or a log record.
type record struct {
	off   int64  // where it is in the input
	up    uint32 // the slot of the span that it belongs below, 0: none
	group uint32 // while the scope is not read to its end, nothing; then the scope; at the end the group
	id    uint32 // of its entry; 0 while there is none
	log   bool
	state state
}

// A state is how far the second pass is with a record.
type state uint8

const (
	pending state = iota
	waiting       // for its parent
	written
	failed // it cannot be read
)

// A group stands for the spans of one resource and one scope.
type group struct{ resource, scope uint32 }

// A head is where a resource or a scope is in the input, and where the schema URL
// beside it. A place below 0 means that there is none.
type head struct {
	value, valueEnd int64
	url, urlEnd     int64
}

var noHead = head{value: -1, url: -1}

// heads are those that differ in their bytes.
type heads struct {
	all  []head
	of   map[[sha256.Size]byte]uint32
	last uint32
}

func newIndex() *index { return &index{groupOf: make(map[group]uint32)} }

func (h *head) bytes(b []byte) (value, url []byte) {
	if h.value >= 0 {
		value = b[h.value:h.valueEnd]
	}
	if h.url >= 0 {
		url = b[h.url:h.urlEnd]
	}
	return value, url
}

// add returns the number of a head.
func (hs *heads) add(b []byte, h head) uint32 {
	value, url := h.bytes(b)
	if len(hs.all) > 0 {
		// Most often it is the same as the one before.
		v, u := hs.all[hs.last].bytes(b)
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

// slot returns the slot of a span, 0 for one without an id.
func (ix *index) slot(trace *[16]byte, span *[8]byte) uint32 {
	if *span == [8]byte{} || *trace == [16]byte{} {
		return 0
	}
	var key spanKey
	copy(key[:16], trace[:])
	copy(key[16:], span[:])
	return ix.slots.find(&key)
}

// span takes in a span. The first of those that have the same ids is the one that
// others belong below.
func (ix *index) span(off int64, trace *[16]byte, span, parent *[8]byte) {
	own := ix.slot(trace, span)
	ix.records.add(record{off: off, up: ix.slot(trace, parent)})
	if own != 0 {
		if s := ix.slots.all.at(int(own)); s.record == 0 {
			s.record = uint32(ix.records.n)
		}
	}
}

// logRecord takes in a log record.
func (ix *index) logRecord(off int64, trace *[16]byte, span *[8]byte) {
	ix.records.add(record{off: off, up: ix.slot(trace, span), log: true})
}

// endScope says what scope the records from the given one on are of.
func (ix *index) endScope(b []byte, from int, h head) {
	scope := ix.scopes.add(b, h)
	for i := from; i < ix.records.n; i++ {
		ix.records.at(i).group = scope
	}
}

// endResource says what resource the records from the given one on are of.
func (ix *index) endResource(b []byte, from int, h head) {
	last := group{resource: ix.holders.add(b, h)}
	n, known := uint32(0), false
	for i := from; i < ix.records.n; i++ {
		r := ix.records.at(i)
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

// parent returns the record of the span that r belongs below, nil if it is not in
// the input.
func (ix *index) parent(r *record) *record {
	if r.up == 0 {
		return nil
	}
	n := ix.slots.all.at(int(r.up)).record
	if n == 0 {
		return nil
	}
	return ix.records.at(int(n - 1))
}
