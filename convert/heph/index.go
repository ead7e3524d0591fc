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

// findParents finds the parents of all events: the event that an event names, or else the smallest event on the same
// stream and substream that contains the event. If two events overlap only in part, neither contains the other. The
// parameter epochs has the epochs of the input.
func (x *index) findParents(epochs []uint64) {
	interval := func(v *pendingEvent) (start, end uint64) {
		start = later(epochs, v.epoch, v.start)
		return start, max(start, later(epochs, v.epoch, v.end))
	}
	order := make([]uint32, x.Len())
	named := false
	for i := range order {
		order[i] = uint32(i)
		named = named || x.at(uint32(i)).namesParent
	}
	slices.SortFunc(order, func(a, b uint32) int {
		v, w := x.at(a), x.at(b)
		start, end := interval(v)
		start2, end2 := interval(w)
		return cmp.Or(
			cmp.Compare(v.stream, w.stream), cmp.Compare(v.substream, w.substream), cmp.Compare(start, start2), cmp.Compare(end2, end),
			// If two intervals are equal, the event that was written later is the parent.
			cmp.Compare(w.counter, v.counter), cmp.Compare(b, a),
		)
	})
	var open []uint32 // each of these events contains the next event
	for _, i := range order {
		v := x.at(i)
		_, end := interval(v)
		for n, at := range slices.Backward(open) {
			top := x.at(at)
			if _, last := interval(top); last >= end && top.stream == v.stream && top.substream == v.substream {
				if !v.namesParent && (v.trace == 0 || top.trace == v.trace) {
					v.parent = at + 1
				}
				break
			}
			open = open[:n]
		}
		open = append(open, i)
	}
	if named {
		x.findNamedParents()
	}
}

// findNamedParents finds the parents that events name by id.
func (x *index) findNamedParents() {
	type ids struct{ trace, span uint64 }
	first := make(map[ids]uint32) // the number of the first event with these ids, plus 1
	for i := range uint32(x.Len()) {
		v := x.at(i)
		if id := (ids{v.trace, v.span}); first[id] == 0 {
			first[id] = i + 1
		}
	}
	for i := range uint32(x.Len()) {
		v := x.at(i)
		if up := first[ids{v.trace, v.up}]; v.namesParent && up != i+1 {
			v.parent = up
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
