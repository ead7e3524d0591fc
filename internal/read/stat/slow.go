package stat

import (
	"math"
	"slices"
)

const (
	fewest   = 10 // durations that are split into slow ones and others
	mostSlow = 3  // at most one of so many is slow, unless the slow ones take muchSlow times as long
	muchSlow = 3
)

// Slow returns the durations at the end of a sorted list that are slow, as the list has them. The cut lies above the median. It
// is tried again among the slow ones, for some that take much longer than those.
func Slow(list []int64) []int64 {
	list = split(list, 1, 1.2)
	for more := list; len(more) > 0; more = split(list, 3, muchSlow) {
		list = more
	}
	return list
}

// Fast returns the durations at the beginning of a sorted list that are far shorter than the others, at most half of them.
func Fast(list []int64) []int64 {
	inverse := make([]int64, 0, len(list))
	for _, took := range slices.Backward(list) {
		inverse = append(inverse, math.MaxInt64/(took+1))
	}
	return list[:len(split(inverse, 1, 1.2))]
}

// split divides durations into two groups that are each as alike as can be, by their logarithms, and returns the slower
// group. It is at most half of them, at least few, and takes at least times as long. It returns nil if there is none.
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
		if n-i > n/mostSlow && apart < math.Log(muchSlow) || few > 1 && list[i]/2 < list[i-1] { // of a ramp no part is the slow one
			continue
		}
		if variance := float64(i) * float64(n-i) * apart * apart; apart > math.Log(times) && variance > best {
			best, slow = variance, list[i:]
		}
	}
	return slow
}
