package timeline

import "math"

// Outers returns for each interval the index of the interval that directly contains it on its lane,
// or -1. Lanes and order are the results of [Lanes]. An interval without length at the very end of
// another one is only inside of it if the other one is its parent.
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
		// Following outers leads down from the top of the open intervals of the lane.
		for top >= 0 && top != v.Parent && intervals[top].End <= v.Start || top >= 0 && intervals[top].End < v.End {
			top = outers[top]
		}
		outers[i], tops[at] = top, i
	}
	return outers
}

// SelfTimes returns the length of each interval minus the lengths of the intervals directly inside
// of it on its lane. Lanes and order are the results of [Lanes].
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
		self[i] = max(self[i], 0) // lengths of more than 63 bits were cut
	}
	return self
}

// length returns the length of v, but at most [math.MaxInt64].
func length(v *Interval) int64 {
	if n := v.End - v.Start; n >= 0 || v.End < v.Start {
		return max(n, 0)
	}
	return math.MaxInt64
}
