package timeline

import (
	"cmp"
	"slices"
)

// An Interval is a span of time that wants a lane. End is not before Start.
type Interval struct {
	Start, End int64
	// Parent is the index of an interval whose lane this one wants to be on,
	// -1 for none.
	Parent int32
	// Group is a number of intervals that may share lanes, such as a process.
	Group int32
}

// spans are intervals that are known by numbers.
type spans interface {
	start(id int32) int64
	end(id int32) int64
	parent(id int32) int32 // -1 for none
}

type intervals []Interval

func (s intervals) start(id int32) int64  { return s[id].Start }
func (s intervals) end(id int32) int64    { return s[id].End }
func (s intervals) parent(id int32) int32 { return s[id].Parent }

// An order compares spans by their beginnings: of those that begin together the longer one comes
// first, which contains the other, then parents before children, then as they are numbered.
type order struct {
	spans
	n      int     // the count of numbers
	depths []int32 // how deep each span is, from 1 on, once two need it; 0 as long as that is unknown
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

// depth returns how deep a span is.
func (o *order) depth(id int32) int32 {
	if o.depths == nil {
		o.depths = make([]int32, o.n)
	}
	var chain []int32
	at := id
	for ; at >= 0 && o.depths[at] == 0; at = o.parent(at) {
		o.depths[at] = 1 // so that a ring ends
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

// Lanes puts intervals onto lanes so that those on one lane nest strictly: of any two one
// contains the other, or they do not overlap. That is what formats want that have no parents,
// and viewers that draw them. It returns the lane of each interval, and the order in which it
// took them: that of their beginnings, of those that begin together the longer one first, then
// parents before children, then as they come.
//
// Lanes are numbered from 0 on within their group. An interval goes to its
// parent's lane if it nests there, else to the lowest one of its group where
// nothing is open, so that no lane has parts of strangers in each other. It takes
// n log n steps.
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

// A group is lanes that are shared. Each is either in idle, because nothing is
// open on it, or once in busy, by when the lowest interval on it ends.
//
// Invariants: lanes are the intervals that are open on each lane; none ends after the
// one below it. What has ended may stay until the lane is looked at again.
type group struct {
	lanes [][]interval
	idle  heap[int32]    // the lowest first
	busy  heap[busyLane] // what ends first
}

func newGroup() *group {
	return &group{
		idle: heap[int32]{before: func(a, b int32) bool { return a < b }},
		busy: heap[busyLane]{before: func(a, b busyLane) bool { return a.end < b.end }},
	}
}

// An interval is one on a lane.
type interval struct {
	id  int32
	end int64
}

// place returns the lane of an interval, whose parent is on a lane or, if that is -1, on none
// of the group. Intervals come in their order.
func (g *group) place(id int32, start, end int64, parent, on int32) int32 {
	if on < 0 || !g.nests(on, start, end, parent) {
		on = g.take(start, end)
	}
	g.lanes[on] = append(g.lanes[on], interval{id, end})
	return on
}

// nests reports whether an interval can go on top of what is open on a lane, of which its
// parent must be part: what is above that has ended. Intervals come in the order
// of their beginnings, so what it finds ended is left out from then on: no interval
// is looked at twice.
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

// take returns the lowest lane where nothing is open at the beginning of an interval, which
// goes there as the lowest: one that ended just now is not open, also for one that takes no
// time itself.
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

// A busyLane is a lane that is free again at end.
type busyLane struct {
	lane int32
	end  int64
}

// A heap has the item that comes before all others at its top.
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
