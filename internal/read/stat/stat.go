// Package stat has the statistics for the analysis of traces.
package stat

import (
	"math"
	"slices"
)

// Quantile returns the smallest value v for which at least the share q of all values is not greater than v. The slice
// values must not be empty. Quantile changes their order.
func Quantile[T int64 | float64](values []T, q float64) T {
	return Nth(values, int(Rank(q, int64(len(values)))))
}

// Rank returns the index of the q-quantile in n sorted values.
func Rank(q float64, n int64) int64 {
	return min(max(int64(math.Ceil(q*float64(n)))-1, 0), n-1)
}

// Nth returns the value that would be at index k if the values were sorted. It changes their order.
func Nth[T int64 | uint64 | float64](values []T, k int) T {
	lo, hi := 0, len(values)-1
	for lo < hi {
		if hi-lo < 32 {
			slices.Sort(values[lo : hi+1])
			break
		}
		// The pivot is the median of three values. The loop moves all values equal to the pivot between the
		// smaller and the larger ones.
		mid := lo + (hi-lo)/2
		a, b, c := values[lo], values[mid], values[hi]
		pivot := max(min(a, b), min(max(a, b), c))
		lt, i, gt := lo, lo, hi
		for i <= gt {
			switch {
			case values[i] < pivot:
				values[i], values[lt] = values[lt], values[i]
				lt++
				i++
			case values[i] > pivot:
				values[i], values[gt] = values[gt], values[i]
				gt--
			default:
				i++
			}
		}
		switch {
		case k < lt:
			hi = lt - 1
		case k > gt:
			lo = gt + 1
		default:
			return values[k]
		}
	}
	return values[k]
}

// LogChoose returns the logarithm of the number of ways to choose k of n.
func LogChoose(n, k int) float64 {
	a, _ := math.Lgamma(float64(n) + 1)
	b, _ := math.Lgamma(float64(k) + 1)
	c, _ := math.Lgamma(float64(n-k) + 1)
	return a - b - c
}

// MoreOften compares the frequency of an event in two samples, c of m times and b of n times. It returns the
// significance with which the first frequency is larger. The significance is -log10 of the probability by chance, by
// Fisher's exact test.
func MoreOften(c, m, b, n int) float64 {
	if c*n <= b*m {
		return 0
	}
	first := LogChoose(m, c) + LogChoose(n, b) - LogChoose(n+m, c+b)
	return surprise(first, m-c, func(i int) float64 {
		return float64(m-c-i) / float64(c+i+1) * float64(b-i) / float64(n-b+i+1)
	})
}

// AtLeast returns -log10 of the probability that at least k of n tries succeed, if each succeeds with probability
// p.
func AtLeast(k, n int, p float64) float64 {
	if p >= 1 {
		return 0
	}
	return surprise(logBinomial(k, n, p), n-k, func(i int) float64 { return float64(n-k-i) / float64(k+i+1) * p / (1 - p) })
}

// AtMost returns -log10 of the probability that at most k of n tries succeed, if each succeeds with probability p.
// It returns 0 if k is at least n*p.
func AtMost(k, n int, p float64) float64 {
	if float64(k) >= float64(n)*p {
		return 0
	}
	return surprise(logBinomial(k, n, p), k, func(i int) float64 { return float64(k-i) / float64(n-k+i+1) * (1 - p) / p })
}

func logBinomial(k, n int, p float64) float64 {
	return LogChoose(n, k) + float64(k)*math.Log(p) + float64(n-k)*math.Log1p(-p)
}

// surprise returns -log10 of a sum. The parameter first is the logarithm of the first term. ratio(i) is the ratio of
// term i+1 to term i, for up to n more terms.
func surprise(first float64, n int, ratio func(i int) float64) float64 {
	sum, term := 1.0, 1.0
	for i := 0; i < n && term > 1e-15*sum; i++ {
		term *= ratio(i)
		sum += term
	}
	return max(0, -(first+math.Log(sum))/math.Ln10)
}

// Normal returns -log10 of the probability that a normally distributed value is more than z standard deviations
// above the mean. It returns 0 if z is not positive.
func Normal(z float64) float64 {
	switch {
	case z <= 0, math.IsNaN(z):
		return 0
	case z > 30: // here Erfc returns 0
		return (z*z/2 + math.Log(z*math.Sqrt(2*math.Pi))) / math.Ln10
	}
	return -math.Log10(math.Erfc(z/math.Sqrt2) / 2)
}

// RankSum compares two sorted samples by the test of Mann and Whitney. It counts the pairs of a value from a and a
// value from b in which the value from b is larger. A pair of equal values counts half. u is the difference
// between this count and the expected count, and variance is the variance of the count by chance.
func RankSum(a, b []int64) (u, variance float64) {
	n, m := float64(len(a)), float64(len(b))
	ties := 0.0
	for i, k := 0, 0; k < len(b) || i < len(a); {
		var value int64
		if k == len(b) || i < len(a) && a[i] <= b[k] {
			value = a[i]
		} else {
			value = b[k]
		}
		from, before := i, i+k
		for i < len(a) && a[i] == value {
			i++
		}
		was := k
		for k < len(b) && b[k] == value {
			k++
		}
		u += float64(k-was) * float64(from+i) / 2
		same := float64(i + k - before)
		ties += same*same*same - same
	}
	return u - n*m/2, n * m / 12 * (n + m + 1 - ties/((n+m)*(n+m-1)))
}
