package timeline

// A group holds the lanes of a group of intervals. A lane without open intervals is in idle. Every other lane has
// one item in busy, with the end of its lowest interval.
//
// Invariants: lanes has the open intervals of each lane. No interval ends after the interval below it. An interval
// that has ended may stay in lanes until the lane is used again.
type group struct {
	lanes [][]interval
	idle  heap[int32]    // the lane with the lowest number is on top
	busy  heap[busyLane] // the lane whose lowest interval ends first is on top
}

func newGroup() *group {
	return &group{
		idle: heap[int32]{before: func(a, b int32) bool { return a < b }},
		busy: heap[busyLane]{before: func(a, b busyLane) bool { return a.end < b.end }},
	}
}

// An interval is an open interval on a lane.
type interval struct {
	id  int32
	end int64
}

// assign assigns a lane to an interval, and returns the lane. It assigns the lane of the parent if the interval fits
// into the parent there, and otherwise the lowest lane without an open interval. So an interval is never inside an
// unrelated interval. on is the lane of the parent, or -1 if the parent has no lane in this group. Intervals must be
// placed in order.
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
	for len(g.busy.items) > 0 && g.busy.items[0].end <= start {
		g.idle.push(g.busy.pop().lane)
	}
	var at int32
	if len(g.idle.items) > 0 {
		at = g.idle.pop()
	} else {
		at = int32(len(g.lanes))
		g.lanes = append(g.lanes, nil)
	}
	g.busy.push(busyLane{at, end})
	g.lanes[at] = g.lanes[at][:0]
	return at
}

// A busyLane is a lane that becomes free at time end.
type busyLane struct {
	lane int32
	end  int64
}

// A heap is a binary heap. The item at its top is before all other items.
type heap[T any] struct {
	items  []T
	before func(a, b T) bool
}

func (h *heap[T]) push(item T) {
	h.items = append(h.items, item)
	for i := len(h.items) - 1; i > 0; {
		up := (i - 1) / 2
		if !h.before(h.items[i], h.items[up]) {
			return
		}
		h.items[i], h.items[up] = h.items[up], h.items[i]
		i = up
	}
}

func (h *heap[T]) pop() T {
	top, n := h.items[0], len(h.items)-1
	h.items[0] = h.items[n]
	h.items = h.items[:n]
	for i := 0; ; {
		down := 2*i + 1
		if down+1 < n && h.before(h.items[down+1], h.items[down]) {
			down++
		}
		if down >= n || !h.before(h.items[down], h.items[i]) {
			return top
		}
		h.items[i], h.items[down] = h.items[down], h.items[i]
		i = down
	}
}
