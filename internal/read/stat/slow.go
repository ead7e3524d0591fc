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
	list = split(list, 1, 1.2)
	for more := list; len(more) > 0; more = split(list, 3, muchSlow) {
		list = more
	}
	return list
}

// Fast returns the durations at the beginning of a sorted list that are much shorter than the others, at most
// half.
func Fast(list []int64) []int64 {
	inverse := make([]int64, 0, len(list))
	for _, took := range slices.Backward(list) {
		inverse = append(inverse, math.MaxInt64/(took+1))
	}
	return list[:len(split(inverse, 1, 1.2))]
}

// split divides sorted durations into two groups, so that the logarithms within each group differ as little as
// possible. It returns the slower group, which has at most half of the durations and at least few, and is on
// average more than times as long. It returns nil if no such group exists.
func split(list []int64, few int, times float64) (slow []int64) {
	n := len(list)
	if n < fewest {
		return nil
	}
	sum, low, best := 0.0, 0.0, 0.0
	for _, took := range list {
		sum += math.Log1p(float64(took))
	}
	for i := 1; i <= n-few; i++ {
		if low += math.Log1p(float64(list[i-1])); 2*i < n || list[i] == list[i-1] {
			continue
		}
		apart := (sum-low)/float64(n-i) - low/float64(i)
		// A steady increase has no slow group.
		if n-i > n/mostSlow && apart < math.Log(muchSlow) || few > 1 && list[i]/2 < list[i-1] {
			continue
		}
		if variance := float64(i) * float64(n-i) * apart * apart; apart > math.Log(times) && variance > best {
			best, slow = variance, list[i:]
		}
	}
	return slow
}
