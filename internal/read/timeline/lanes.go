package timeline

import (
	"cmp"
	"slices"
)

// An Interval is a period of time that is to be placed on a lane. End is not before Start.
type Interval struct {
	Start, End int64
	// Parent is the index of the interval on whose lane this one is placed if possible, or -1.
	Parent int32
	// Group identifies intervals that may share lanes, such as the spans of a process.
	Group int32
}

// spans is a collection of intervals that are identified by numbers.
type spans interface {
	start(id int32) int64
	end(id int32) int64
	parent(id int32) int32 // -1 for none
}

type intervals []Interval

func (s intervals) start(id int32) int64  { return s[id].Start }
func (s intervals) end(id int32) int64    { return s[id].End }
func (s intervals) parent(id int32) int32 { return s[id].Parent }

// An order compares spans by their start. If two spans start together, the longer one comes first,
// because it contains the other. If they have the same length, parents come before children.
// Otherwise the order is that of their numbers.
type order struct {
	spans
	n      int     // the number of spans
	depths []int32 // the depth of each span, from 1 on; 0 if it is not computed yet
}

func (o *order) compare(a, b int32) int {
	if c := cmp.Compare(o.start(a), o.start(b)); c != 0 || a == b {
		return c
	}
	if c := cmp.Compare(o.end(b), o.end(a)); c != 0 {
		return c
	}
	return cmp.Or(cmp.Compare(o.depth(a), o.depth(b)), cmp.Compare(a, b))
}

// depth returns the depth of a span.
func (o *order) depth(id int32) int32 {
	if o.depths == nil {
		o.depths = make([]int32, o.n)
	}
	var chain []int32
	at := id
	for ; at >= 0 && o.depths[at] == 0; at = o.parent(at) {
		o.depths[at] = 1 // so that a cycle of parents ends
		chain = append(chain, at)
	}
	depth := int32(0)
	if at >= 0 {
		depth = o.depths[at]
	}
	for _, at := range slices.Backward(chain) {
		depth++
		o.depths[at] = depth
	}
	return o.depths[id]
}

// Lanes places intervals on lanes so that the intervals on one lane nest strictly: of any two, one
// contains the other or they do not overlap. Formats without parent links and viewers with
// timelines need this. Lanes returns the lane of each interval, and the order in which it placed
// them. The order is by start. Of intervals that start together, the longer one comes first, then
// parents before children, then by index.
//
// The lanes of each group are numbered from 0 on. An interval goes to its parent's lane if it nests
// there. Otherwise it goes to the lowest lane of its group on which no interval is open. So an
// interval is never placed inside of an unrelated one. Lanes takes O(n log n) time.
func Lanes(all []Interval) (lanes, took []int32) {
	took = make([]int32, len(all))
	lanes = make([]int32, len(all))
	for i := range took {
		took[i], lanes[i] = int32(i), -1
	}
	o := order{spans: intervals(all), n: len(all)}
	slices.SortFunc(took, o.compare)
	groups := make(map[int32]*group)
	for _, i := range took {
		v := &all[i]
		g := groups[v.Group]
		if g == nil {
			g = newGroup()
			groups[v.Group] = g
		}
		parent, on := v.Parent, int32(-1)
		if parent >= 0 && all[parent].Group == v.Group {
			on = lanes[parent]
		}
		lanes[i] = g.place(i, v.Start, v.End, parent, on)
	}
	return lanes, took
}

// A group holds the lanes of a group of intervals. A lane without open intervals is in idle. Any
// other lane is once in busy, with the end of its lowest interval.
//
// Invariants: lanes has the open intervals of each lane. No interval ends after the one below it.
// An interval that has ended may stay until the lane is used again.
type group struct {
	lanes [][]interval
	idle  heap[int32]    // the lowest lane first
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

// place puts an interval on a lane and returns the lane. The argument on is the lane of the
// interval's parent, or -1 if the parent is not on a lane of the group. Intervals must be placed in
// their order.
func (g *group) place(id int32, start, end int64, parent, on int32) int32 {
	if on < 0 || !g.nests(on, start, end, parent) {
		on = g.take(start, end)
	}
	g.lanes[on] = append(g.lanes[on], interval{id, end})
	return on
}

// nests reports whether an interval can go on top of the open intervals of a lane. The parent must
// be one of them, and all intervals above the parent must have ended. nests removes the intervals
// that have ended. This is possible because intervals are placed in the order of their start.
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

// take returns the lowest lane on which no interval is open at time start. It marks the lane as
// busy until end. An interval that ends at start is not open, even if the new interval has no
// length.
func (g *group) take(start, end int64) int32 {
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

// A heap is a binary heap. The item that comes before all others is at its top.
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
