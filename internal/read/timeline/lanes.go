package timeline

import "container/heap"

// A group holds the lanes of a group of intervals. A lane without open intervals is in idle. Every other lane has
// one item in busy, with the end of its lowest interval.
//
// Invariants: lanes has the open intervals of each lane. No interval ends after the interval below it. An interval
// that has ended may stay in lanes until the lane is used again.
type group struct {
	lanes [][]interval
	idle  slots // by the number of the lane
	busy  slots // by the end of the lane's lowest interval
}

// An interval is an open interval on a lane.
type interval struct {
	id  int32
	end int64
}

// assign assigns a lane to an interval, and returns the lane. It assigns the lane of the parent if the interval fits
// into the parent there, and otherwise the lowest lane without an open interval. So an interval is never inside an
// unrelated interval. The parameter on is the lane of the parent, or -1 if the parent has no lane in this group.
// Intervals must be placed in order.
func (g *group) assign(id int32, start, end int64, parent, on int32) int32 {
	if on < 0 || !g.nests(on, start, end, parent) {
		on = g.occupyLane(start, end)
	}
	g.lanes[on] = append(g.lanes[on], interval{id, end})
	return on
}

// nests reports whether an interval fits on top of the open intervals of a lane. It fits if the parent is one of the
// open intervals, and all intervals above the parent have ended. nests removes the intervals that have ended, which
// is possible because intervals are placed in the order of their start.
func (g *group) nests(lane int32, start, end int64, parent int32) bool {
	open := &g.lanes[lane]
	for n := len(*open); n > 0; n-- {
		top := (*open)[n-1]
		if top.id == parent {
			return end <= top.end
		}
		if top.end > start {
			return false
		}
		*open = (*open)[:n-1]
	}
	return false
}

// occupyLane returns the lowest lane without an open interval at time start, and marks it as busy until end. An interval
// that ends at start is not open, even if the new interval has no length.
func (g *group) occupyLane(start, end int64) int32 {
	for len(g.busy) > 0 && g.busy[0].key <= start {
		lane := heap.Pop(&g.busy).(slot).lane
		heap.Push(&g.idle, slot{lane, int64(lane)})
	}
	at := int32(len(g.lanes))
	if len(g.idle) > 0 {
		at = heap.Pop(&g.idle).(slot).lane
	} else {
		g.lanes = append(g.lanes, nil)
	}
	heap.Push(&g.busy, slot{at, end})
	g.lanes[at] = g.lanes[at][:0]
	return at
}

// A slot is a lane in a heap.
type slot struct {
	lane int32
	key  int64 // the slot with the least key is on top
}

// slots is a heap, see package container/heap.
type slots []slot

func (s slots) Len() int           { return len(s) }
func (s slots) Less(i, j int) bool { return s[i].key < s[j].key }
func (s slots) Swap(i, j int)      { s[i], s[j] = s[j], s[i] }
func (s *slots) Push(x any)        { *s = append(*s, x.(slot)) }

func (s *slots) Pop() any {
	n := len(*s) - 1
	last := (*s)[n]
	*s = (*s)[:n]
	return last
}
