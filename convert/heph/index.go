package heph

import (
	"cmp"
	"hash/maphash"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/entrace-go/entrace/format"
)

// A pendingEvent is an event packet whose entry is not written yet: that of its parent comes first.
type pendingEvent struct {
	offset     int64
	substream  uint64
	start, end uint64 // as in the packet
	span, up   uint64 // ids of the span and its parent, 0 for none; of ours numbers, up one larger
	trace      uint64 // a hash of the trace id, 0 if it is made
	stream     uint32
	counter    uint32
	epoch      uint32 // which one
	size       uint32
	packet     uint32
	parent     uint32 // the event that is its parent, one larger; 0 for the root
	entry      uint32 // 0 as long as it is not written
	ours       bool   // it has the number of an entry
	sum        bool   // it is the mark that Encode ends with
	top        bool   // its parent is not a matter of containment
	met        bool
}

const chunkSize = 4096

// An index is the events of an input in their order, in pieces, so that it never
// is larger than they are. An event takes 96 bytes.
type index struct {
	chunks [][]pendingEvent
	n      int
}

func (x *index) at(i uint32) *pendingEvent { return &x.chunks[i/chunkSize][i%chunkSize] }

func (x *index) add() *pendingEvent {
	if x.n%chunkSize == 0 {
		x.chunks = append(x.chunks, make([]pendingEvent, chunkSize))
	}
	x.n++
	return x.at(uint32(x.n - 1))
}

var seed = maphash.MakeSeed()

// identify takes the ids that attributes give.
func (v *pendingEvent) identify(attrs []attribute) (sum uint64, encoded bool) {
	var ids originIDs
	hasSum := false
	for i := range attrs {
		a := &attrs[i]
		switch a.Name {
		case attrID:
			if a.Value.typ == kindU64 && a.Value.num < math.MaxUint32 && !v.ours {
				v.ours, v.span = true, a.Value.num
			}
		case attrParent:
			if a.Value.typ == kindU64 && a.Value.num < math.MaxUint32 {
				v.up, v.top = a.Value.num+1, true
			}
		case attrEncoding:
			encoded = a.Value.typ == kindU64 && a.Value.num == encoding
		case attrSum:
			sum, hasSum = a.Value.num, a.Value.typ == kindU64
		default:
			ids.take(a)
		}
	}
	if v.ours {
		return sum, encoded && hasSum && v.span == 0
	}
	v.span, v.up, v.top = number(ids.span), number(ids.parent), ids.parent != ""
	if ids.trace != "" {
		v.trace = max(maphash.String(seed, strings.ToLower(ids.trace)), 1)
	}
	return 0, false
}

func number(id string) (n uint64) {
	n, _ = strconv.ParseUint(id, 16, 64) // was looked at before
	return n
}

// originIDs are the ids that a packet gives its span. Only the first valid one of
// each counts.
type originIDs struct{ trace, span, parent string }

// take takes a if it is one, and reports so.
func (o *originIDs) take(a *attribute) bool {
	to, size := &o.trace, 32
	switch a.Name {
	case format.AttrTraceID:
	case format.AttrSpanID:
		to, size = &o.span, 16
	case format.AttrParentSpanID:
		to, size = &o.parent, 16
	default:
		return false
	}
	if a.Value.typ != kindString || *to != "" || !isID(a.Value.text, size) {
		return false
	}
	*to = a.Value.text
	return true
}

// isID reports whether s is an id of that many hex digits, not all of them 0.
func isID(s string, size int) bool {
	if len(s) != size {
		return false
	}
	zero := true
	for i := range len(s) {
		switch c := s[i]; {
		case c == '0':
			continue
		case c > '0' && c <= '9', c >= 'a' && c <= 'f', c >= 'A' && c <= 'F':
			zero = false
		default:
			return false
		}
	}
	return !zero
}

// key is what explicit parents are found by.
type key struct {
	scope uint64 // the trace, or the epoch of numbers
	id    uint64
	ours  bool
}

func (v *pendingEvent) key() key {
	if v.ours {
		return key{uint64(v.epoch), v.span, true}
	}
	return key{v.trace, v.span, false}
}

// above is the key of the parent.
func (v *pendingEvent) above() key {
	k := v.key()
	k.id = v.up
	if v.ours {
		k.id--
	}
	return k
}

func (k key) compare(l key) int {
	switch {
	case k.ours != l.ours:
		if k.ours {
			return 1
		}
		return -1
	case k.scope != l.scope:
		return cmp.Compare(k.scope, l.scope)
	}
	return cmp.Compare(k.id, l.id)
}

// hang finds the parents of all events. epochs are those of the input.
func (x *index) hang(epochs []uint64) {
	order := make([]uint32, x.n)
	at := func(i uint32) interval {
		v := x.at(i)
		start := later(epochs, v.epoch, v.start)
		return interval{
			stream: v.stream, counter: v.counter, substream: v.substream,
			start: start, end: max(start, later(epochs, v.epoch, v.end)),
		}
	}
	explicit := false
	contain(x.n, order, at, func(i uint32, parent int64) {
		v := x.at(i)
		if explicit = explicit || v.top; v.top || parent < 0 || v.sum {
			return
		}
		up := x.at(uint32(parent))
		if up.isRoot() || !v.ours && v.trace != 0 && up.trace != v.trace {
			return
		}
		v.parent = uint32(parent) + 1
	})
	if explicit {
		x.name(order)
	}
}

// isRoot reports whether v is the root of a trace that Encode wrote.
func (v *pendingEvent) isRoot() bool { return v.ours && v.span == 0 }

// name finds the parents that events name.
func (x *index) name(order []uint32) {
	for i := range order {
		order[i] = uint32(i)
	}
	slices.SortFunc(order, func(a, b uint32) int {
		return cmp.Or(x.at(a).key().compare(x.at(b).key()), cmp.Compare(a, b))
	})
	for i := range uint32(x.n) {
		v := x.at(i)
		if !v.top {
			continue
		}
		at, ok := slices.BinarySearchFunc(order, v.above(), func(i uint32, k key) int { return x.at(i).key().compare(k) })
		if ok && order[at] != i && !x.at(order[at]).isRoot() {
			v.parent = order[at] + 1
		}
	}
}

// later returns a time since 1970, or the last there is.
func later(epochs []uint64, epoch uint32, nano uint64) uint64 {
	if len(epochs) == 0 {
		return nano
	}
	if e := epochs[epoch]; nano <= math.MaxUint64-e {
		return e + nano
	}
	return math.MaxUint64
}

// idOf returns a hash of the id that e has once in an attribute, 0 if it has none or
// one that is not written as this module writes them.
func idOf(e *format.TraceEntry, name string, size int) uint64 {
	id := uint64(0)
	for i := range e.Attributes {
		a := &e.Attributes[i]
		if a.Name != name {
			continue
		}
		text := a.Value.Text()
		if id != 0 || a.Value.Kind() != format.KindString || !isID(text, size) || strings.ToLower(text) != text {
			return 0
		}
		id = max(maphash.String(seed, text), 1)
	}
	return id
}
