package heph

import (
	"cmp"
	"slices"
)

// An interval is where an event lies: what says which event it is part of.
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
	// Of two that are equal, the one that was written later is the parent.
	return cmp.Compare(w.counter, v.counter)
}

// contain finds for each of len(order) events the smallest one of the same stream and
// substream that contains it, and calls found with both, or with a parent of -1
// if there is none. Where two overlap in part, neither contains the other.
// order is memory for their numbers.
func contain(order []uint32, at func(i uint32) interval, found func(i uint32, parent int64)) {
	for i := range order {
		order[i] = uint32(i)
	}
	slices.SortFunc(order, func(a, b uint32) int {
		v, w := at(a), at(b)
		return cmp.Or(v.compare(&w), cmp.Compare(b, a))
	})
	var open []uint32 // each in the one before
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
