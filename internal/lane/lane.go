// Package lane puts intervals onto lanes so that those on one lane nest strictly:
// of any two one contains the other, or they do not overlap. That is what formats
// want that have no parents, and viewers that draw them.
package lane

import (
	"cmp"
	"container/heap"
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

// Order returns the indices of intervals in the order in which Assign takes them,
// that of their beginnings: of those that begin together the longer one first,
// which contains the other, then parents before children, then as they come.
func Order(intervals []Interval) []int32 {
	order := make([]int32, len(intervals))
	depths := make([]int32, len(intervals))
	for i := range order {
		order[i] = int32(i)
		depths[i] = -1
	}
	var chain []int32
	for i := range intervals {
		chain = chain[:0]
		at := int32(i)
		for at >= 0 && depths[at] < 0 {
			depths[at] = 0 // so that a ring ends
			chain = append(chain, at)
			at = intervals[at].Parent
		}
		depth := int32(0)
		if at >= 0 {
			depth = depths[at] + 1
		}
		for _, at := range slices.Backward(chain) {
			depths[at] = depth
			depth++
		}
	}
	slices.SortFunc(order, func(a, b int32) int {
		x, y := &intervals[a], &intervals[b]
		return cmp.Or(cmp.Compare(x.Start, y.Start), cmp.Compare(y.End, x.End), cmp.Compare(depths[a], depths[b]), cmp.Compare(a, b))
	})
	return order
}

// Assign returns the lane of each interval, and the order in which it took them.
// Lanes are numbered from 0 on within their group. An interval goes to its
// parent's lane if it nests there, else to the lowest one of its group where
// nothing is open, so that no lane has parts of strangers in each other. It takes
// n log n steps.
func Assign(intervals []Interval) (lanes, order []int32) {
	order = Order(intervals)
	lanes = make([]int32, len(intervals))
	for i := range lanes {
		lanes[i] = -1
	}
	groups := make(map[int32]*group)
	for _, i := range order {
		v := &intervals[i]
		g := groups[v.Group]
		if g == nil {
			g = new(group)
			groups[v.Group] = g
		}
		at := int32(-1)
		if p := v.Parent; p >= 0 && intervals[p].Group == v.Group && lanes[p] >= 0 {
			if l := &g.lanes[lanes[p]]; l.nests(v, p, intervals) {
				at = lanes[p]
			}
		}
		if at < 0 {
			at = g.free(v.Start)
		}
		g.put(at, i, v.End)
		lanes[i] = at
	}
	return lanes, order
}

// A stack is a lane: the intervals that are open on it, each in the one before.
type stack struct {
	open []int32
	ends []int64
}

// nests reports whether v can go on top of what is open on the lane, of which
// its parent p must be part: what is above that has ended.
func (s *stack) nests(v *Interval, p int32, intervals []Interval) bool {
	for n := len(s.open); n > 0; n-- {
		if s.open[n-1] == p {
			s.open, s.ends = s.open[:n], s.ends[:n]
			return v.End <= intervals[p].End && v.Start >= intervals[p].Start
		}
		if s.ends[n-1] > v.Start {
			return false
		}
	}
	return false
}

// A group is lanes that are shared. Those where nothing is open are in idle; those
// that are busy are in busy by when that ends.
type group struct {
	lanes []stack
	idle  lanesByNumber
	busy  lanesByEnd
}

// free returns the lowest lane where nothing is open at the time.
func (g *group) free(start int64) int32 {
	for len(g.busy) > 0 && g.busy[0].end <= start {
		b := heap.Pop(&g.busy).(busyLane)
		heap.Push(&g.idle, b.lane)
	}
	if len(g.idle) > 0 {
		return heap.Pop(&g.idle).(int32)
	}
	g.lanes = append(g.lanes, stack{})
	return int32(len(g.lanes) - 1)
}

// put opens interval i on a lane.
func (g *group) put(lane, i int32, end int64) {
	s := &g.lanes[lane]
	if len(s.open) == 0 || s.ends[0] < end {
		// Nothing on the lane outlives what is at the bottom of it.
		s.open, s.ends = s.open[:0], s.ends[:0]
		heap.Push(&g.busy, busyLane{lane, end})
	}
	s.open, s.ends = append(s.open, i), append(s.ends, end)
}

type lanesByNumber []int32

func (l lanesByNumber) Len() int           { return len(l) }
func (l lanesByNumber) Less(i, j int) bool { return l[i] < l[j] }
func (l lanesByNumber) Swap(i, j int)      { l[i], l[j] = l[j], l[i] }
func (l *lanesByNumber) Push(x any)        { *l = append(*l, x.(int32)) }
func (l *lanesByNumber) Pop() any {
	old := *l
	x := old[len(old)-1]
	*l = old[:len(old)-1]
	return x
}

type busyLane struct {
	lane int32
	end  int64
}

type lanesByEnd []busyLane

func (l lanesByEnd) Len() int           { return len(l) }
func (l lanesByEnd) Less(i, j int) bool { return l[i].end < l[j].end }
func (l lanesByEnd) Swap(i, j int)      { l[i], l[j] = l[j], l[i] }
func (l *lanesByEnd) Push(x any)        { *l = append(*l, x.(busyLane)) }
func (l *lanesByEnd) Pop() any {
	old := *l
	x := old[len(old)-1]
	*l = old[:len(old)-1]
	return x
}
