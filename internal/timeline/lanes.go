package timeline

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

// LaneOrder returns the indices of intervals in the order in which Lanes takes them,
// that of their beginnings: of those that begin together the longer one first,
// which contains the other, then parents before children, then as they come.
func LaneOrder(intervals []Interval) []int32 {
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

// Lanes puts intervals onto lanes so that those on one lane nest strictly: of any two one
// contains the other, or they do not overlap. That is what formats want that have no parents,
// and viewers that draw them. It returns the lane of each interval, and the order in which it
// took them.
//
// Lanes are numbered from 0 on within their group. An interval goes to its
// parent's lane if it nests there, else to the lowest one of its group where
// nothing is open, so that no lane has parts of strangers in each other. It takes
// n log n steps.
func Lanes(intervals []Interval) (lanes, order []int32) {
	order = LaneOrder(intervals)
	lanes = make([]int32, len(intervals))
	for i := range lanes {
		lanes[i] = -1
	}
	below := make([]int32, len(intervals))
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
			if g.nests(lanes[p], v, p, intervals, below) {
				at = lanes[p]
			}
		}
		if at < 0 {
			at = g.take(v)
		}
		below[i], g.tops[at] = g.tops[at], i
		lanes[i] = at
	}
	return lanes, order
}

// A group is lanes that are shared. Each is either in idle, because nothing is
// open on it, or once in busy, by when the lowest interval on it ends.
//
// Invariants: tops are the intervals that were opened last on each lane, or -1; no
// interval ends after the one below it. What has ended may stay until the lane is
// looked at again.
type group struct {
	tops []int32
	idle lanesByNumber
	busy lanesByEnd
}

// nests reports whether v can go on top of what is open on a lane, of which its
// parent p must be part: what is above that has ended. Intervals come in the order
// of their beginnings, so what it finds ended is left out from then on: no interval
// is looked at twice. below are the intervals below each.
func (g *group) nests(lane int32, v *Interval, p int32, intervals []Interval, below []int32) bool {
	top := &g.tops[lane]
	for ; *top >= 0; *top = below[*top] {
		end := intervals[*top].End
		if *top == p {
			return v.End <= end
		}
		if end > v.Start {
			return false
		}
	}
	return false
}

// take returns the lowest lane where nothing is open at the beginning of v, which
// goes there as the lowest of an empty stack: an interval that ended just now is
// not open, also for one that takes no time itself.
func (g *group) take(v *Interval) int32 {
	for len(g.busy) > 0 && g.busy[0].end <= v.Start {
		heap.Push(&g.idle, heap.Pop(&g.busy).(busyLane).lane)
	}
	var at int32
	if len(g.idle) > 0 {
		at = heap.Pop(&g.idle).(int32)
	} else {
		at = int32(len(g.tops))
		g.tops = append(g.tops, -1)
	}
	heap.Push(&g.busy, busyLane{at, v.End})
	g.tops[at] = -1
	return at
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
