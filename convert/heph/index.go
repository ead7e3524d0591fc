package heph

import (
	"cmp"
	"hash/maphash"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/entrace-go/entrace/format"
	"github.com/entrace-go/entrace/internal/core/chunked"
)

// A pendingEvent is an event packet whose entry was not written yet. The entry of its parent must be written first.
type pendingEvent struct {
	offset      int64
	substream   uint64
	start, end  uint64 // as in the packet
	span, up    uint64 // ids of the span and its parent; 0 means no id
	trace       uint64 // a hash of the trace id; 0: the packet has none
	stream      uint32
	counter     uint32
	epoch       uint32 // index of its epoch
	size        uint32
	packet      uint32
	parent      uint32 // number of the parent event plus 1; 0: the root
	entry       uint32 // id of its entry; 0: not written yet
	namesParent bool   // the packet itself names its parent
	visited     bool
}

// An index holds the events of an input, in order. Each event needs 96 bytes.
type index struct{ chunked.List[pendingEvent] }

func (x *index) at(i uint32) *pendingEvent { return x.At(int(i)) }

var seed = maphash.MakeSeed()

// identify sets the ids of v from the attributes of its packet.
func (v *pendingEvent) identify(attrs []attribute) {
	var ids originIDs
	for i := range attrs {
		ids.add(&attrs[i])
	}
	v.span, v.up, v.namesParent = parseID(ids.span), parseID(ids.parent), ids.parent != ""
	if ids.trace != "" {
		v.trace = max(maphash.String(seed, strings.ToLower(ids.trace)), 1)
	}
}

func parseID(id string) (n uint64) {
	n, _ = strconv.ParseUint(id, 16, 64) // the id was validated before
	return n
}

// originIDs are the ids in a packet: the first valid id of each kind.
type originIDs struct{ trace, span, parent string }

// add stores a if a is an attribute with a valid id, and reports whether it is.
func (o *originIDs) add(a *attribute) bool {
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

// isID reports whether s is an id of size hex digits, and not zero.
func isID(s string, size int) bool {
	return len(s) == size && strings.Trim(s, "0123456789abcdefABCDEF") == "" && strings.Trim(s, "0") != ""
}

// compare compares the ids of v with a trace id and a span id.
func (v *pendingEvent) compare(trace, span uint64) int {
	return cmp.Or(cmp.Compare(v.trace, trace), cmp.Compare(v.span, span))
}

// findParents finds the parents of all events. The parameter epochs has the epochs of the input.
func (x *index) findParents(epochs []uint64) {
	order := make([]uint32, x.Len())
	at := func(i uint32) interval {
		v := x.at(i)
		start := later(epochs, v.epoch, v.start)
		return interval{
			stream: v.stream, counter: v.counter, substream: v.substream,
			start: start, end: max(start, later(epochs, v.epoch, v.end)),
		}
	}
	explicit := false
	findContainers(order, at, func(i uint32, parent int64) {
		v := x.at(i)
		explicit = explicit || v.namesParent
		if v.namesParent || parent < 0 || v.trace != 0 && x.at(uint32(parent)).trace != v.trace {
			return
		}
		v.parent = uint32(parent) + 1
	})
	if explicit {
		x.findNamedParents(order)
	}
}

// findNamedParents finds the parents that events name by id. The slice order has the numbers of all events, and is
// sorted again.
func (x *index) findNamedParents(order []uint32) {
	slices.SortFunc(order, func(a, b uint32) int {
		w := x.at(b)
		return cmp.Or(x.at(a).compare(w.trace, w.span), cmp.Compare(a, b))
	})
	for i := range uint32(x.Len()) {
		v := x.at(i)
		if !v.namesParent {
			continue
		}
		at, ok := slices.BinarySearchFunc(order, v, func(i uint32, v *pendingEvent) int { return x.at(i).compare(v.trace, v.up) })
		if ok && order[at] != i {
			v.parent = order[at] + 1
		}
	}
}

// later returns epoch plus nano, a time in nanoseconds since 1970, or the largest uint64 if the sum is larger.
func later(epochs []uint64, epoch uint32, nano uint64) uint64 {
	if len(epochs) == 0 {
		return nano
	}
	if e := epochs[epoch]; nano <= math.MaxUint64-e {
		return e + nano
	}
	return math.MaxUint64
}
