package heph

import (
	"cmp"
	"slices"
)

// An interval is the stream, the substream and the time of an event.
type interval struct {
	stream     uint32
	counter    uint32
	substream  uint64
	start, end uint64 // end is not before start
}

func (v *interval) compare(w *interval) int {
	switch {
	case v.stream != w.stream:
		return cmp.Compare(v.stream, w.stream)
	case v.substream != w.substream:
		return cmp.Compare(v.substream, w.substream)
	case v.start != w.start:
		return cmp.Compare(v.start, w.start)
	case v.end != w.end:
		return cmp.Compare(w.end, v.end)
	}
	// If two intervals are equal, the event that was written later is the parent.
	return cmp.Compare(w.counter, v.counter)
}

// findContainers finds the parent of each of the len(order) events. The parent is the smallest event on the same
// stream and substream that contains the event. If two events overlap only in part, neither contains the other. The
// function at returns the interval of an event. The function found is called with each event and its parent, or -1 if
// the event has no parent. The slice order is only used as a buffer.
func findContainers(order []uint32, at func(i uint32) interval, found func(i uint32, parent int64)) {
	for i := range order {
		order[i] = uint32(i)
	}
	slices.SortFunc(order, func(a, b uint32) int {
		v, w := at(a), at(b)
		return cmp.Or(v.compare(&w), cmp.Compare(b, a))
	})
	var open []uint32 // each of these events contains the next event
	var last interval
	for _, i := range order {
		v := at(i)
		if v.stream != last.stream || v.substream != last.substream {
			open = open[:0]
		}
		last = v
		parent := int64(-1)
		for n := len(open); n > 0 && parent < 0; n-- {
			if top := at(open[n-1]); top.end >= v.end {
				parent = int64(open[n-1])
			} else {
				open = open[:n-1]
			}
		}
		found(i, parent)
		open = append(open, i)
	}
}
