package stat

import (
	"math"
	"slices"
)

const (
	fewest   = 10 // the minimum number of durations for a split
	mostSlow = 3  // at most one in mostSlow durations is slow, unless the slow durations are muchSlow times as long
	muchSlow = 3
)

// Slow returns the slow durations at the end of a sorted list, as a part of the list. At least half of all durations
// are not slow. If some of the slow durations are much longer than the others, Slow returns only the longest group.
func Slow(list []int64) []int64 {
	slow := split(list, 1, 1.2, true)
	for more := split(list, 1, 1.2, false); ; slow = more {
		more = split(more, 3, muchSlow, false)
		if len(more) == 0 {
			return slow
		}
	}
}

// Fast returns the durations at the beginning of a sorted list that are much shorter than the others. Fast returns at
// most half of the list.
func Fast(list []int64) []int64 {
	inverse := make([]int64, 0, len(list))
	for _, took := range slices.Backward(list) {
		inverse = append(inverse, math.MaxInt64/(took+1))
	}
	return list[:len(split(inverse, 1, 1.2, true))]
}

// split divides sorted durations into two groups, so that the logarithms within each group differ as little as
// possible. It returns the slower group. The slower group has at least few durations, but not more than half of all
// durations, and its logarithmic mean is more than times the mean of the other group. If there is no such group,
// split returns nil. If peak is true, a cut is rejected if the next lower cut is better, even if the lower cut is
// below the median.
func split(list []int64, few int, times float64, peak bool) (slow []int64) {
	n := len(list)
	if n < fewest {
		return nil
	}
	sum, low, best, below := 0.0, 0.0, 0.0, 0.0 // below is the variance of the next lower cut, while it decreases
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
		// A list that increases steadily has no slow group.
		if n-i > n/mostSlow && apart < math.Log(muchSlow) || few > 1 && list[i]/2 < list[i-1] {
			continue
		}
		if apart > math.Log(times) && variance > best {
			best, slow = variance, list[i:]
		}
	}
	return slow
}
