package stat

import (
	"math"
	"slices"
)

const (
	fewest   = 10 // minimum number of durations for a split
	mostSlow = 3  // at most one in mostSlow is slow, unless the slow ones are muchSlow times as long
	muchSlow = 3
)

// Slow returns the slow durations at the end of a sorted list, as a part of the list. The cut is above the
// median. Slow splits the slow durations again if some of them are much longer than the rest.
func Slow(list []int64) []int64 {
	slow := split(list, 1, 1.2, true)
	for more := split(list, 1, 1.2, false); ; slow = more {
		if more = split(more, 3, muchSlow, false); len(more) == 0 {
			return slow
		}
	}
}

// Fast returns the durations at the beginning of a sorted list that are much shorter than the others, at most
// half.
func Fast(list []int64) []int64 {
	inverse := make([]int64, 0, len(list))
	for _, took := range slices.Backward(list) {
		inverse = append(inverse, math.MaxInt64/(took+1))
	}
	return list[:len(split(inverse, 1, 1.2, true))]
}

// split divides sorted durations into two groups, so that the logarithms within each group differ as little as
// possible. It returns the slower group, which has at most half of the durations and at least few, and is on
// average more than times as long. It returns nil if no such group exists. If peak is set,
// a cut is not taken if a cut right below it, which may be below the median, would be better.
func split(list []int64, few int, times float64, peak bool) (slow []int64) {
	n := len(list)
	if n < fewest {
		return nil
	}
	sum, low, best, below := 0.0, 0.0, 0.0, 0.0 // below is the variance of the cut below, as long as it falls
	for _, took := range list {
		sum += math.Log1p(float64(took))
	}
	for i := 1; i <= n-few; i++ {
		low += math.Log1p(float64(list[i-1]))
		apart := (sum-low)/float64(n-i) - low/float64(i)
		variance := float64(i) * float64(n-i) * apart * apart
		if 2*i < n || list[i] == list[i-1] || peak && variance < below {
			below = variance
			continue
		}
		below = 0
		// A steady increase has no slow group.
		if n-i > n/mostSlow && apart < math.Log(muchSlow) || few > 1 && list[i]/2 < list[i-1] {
			continue
		}
		if apart > math.Log(times) && variance > best {
			best, slow = variance, list[i:]
		}
	}
	return slow
}
