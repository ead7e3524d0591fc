package timeline

import "math"

// Outers returns, for intervals on the lanes that [Lanes] gave them, the index
// of the one that each is directly in there, -1 for none. An interval without
// extent at the very end of another is in it only if that is its parent.
func Outers(intervals []Interval, lanes, order []int32) []int32 {
	type place struct{ group, lane int32 }
	outers := make([]int32, len(intervals))
	tops := make(map[place]int32)
	for _, i := range order {
		v := &intervals[i]
		at := place{v.Group, lanes[i]}
		top, busy := tops[at]
		if !busy {
			top = -1
		}
		// outers leads down from the top of what is open on the lane.
		for top >= 0 && top != v.Parent && intervals[top].End <= v.Start || top >= 0 && intervals[top].End < v.End {
			top = outers[top]
		}
		outers[i], tops[at] = top, i
	}
	return outers
}

// SelfTimes returns how long each interval is without what is directly in it on
// its lane. Lanes and order are those that [Lanes] returned.
func SelfTimes(intervals []Interval, lanes, order []int32) []int64 {
	outers := Outers(intervals, lanes, order)
	self := make([]int64, len(intervals))
	for i := range intervals {
		n := length(&intervals[i])
		self[i] += n
		if o := outers[i]; o >= 0 {
			self[o] -= n
		}
	}
	for i := range self {
		self[i] = max(self[i], 0) // lengths beyond 63 bits were cut
	}
	return self
}

// length returns how long v is, no more than an int64 holds.
func length(v *Interval) int64 {
	if n := v.End - v.Start; n >= 0 || v.End < v.Start {
		return max(n, 0)
	}
	return math.MaxInt64
}
