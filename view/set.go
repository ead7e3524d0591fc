package view

import (
	"iter"
	"math"
	"math/bits"
	"math/rand/v2"
)

// A Set is a set of numbers, such as rows, with one bit per number. It is not safe for concurrent use while it
// changes.
type Set[N ~int | ~uint32] []uint64

// Has reports whether n is in the set. It panics if n is beyond the size of the set.
func (s Set[N]) Has(n N) bool { return s[n/64]>>(n%64)&1 != 0 }

// Add adds n. It panics if n is beyond the size of the set.
func (s Set[N]) Add(n N) { s[n/64] |= 1 << (n % 64) }

// Len returns the number of numbers in the set.
func (s Set[N]) Len() int {
	n := 0
	for _, w := range s {
		n += bits.OnesCount64(w)
	}
	return n
}

// All returns the numbers in the set in ascending order.
func (s Set[N]) All() iter.Seq[N] {
	return func(yield func(N) bool) {
		for i, w := range s {
			for ; w != 0; w &= w - 1 {
				if !yield(N(i*64 + bits.TrailingZeros64(w))) {
					return
				}
			}
		}
	}
}

// Sample returns about n numbers of the set in ascending order, or all numbers if the set has at most n. Repeated
// calls return the same sample. Each number is chosen at random, independently of its neighbors: a sample at even
// distances would be biased, because requests of a trace often have the same number of rows.
func (s Set[N]) Sample(n int) iter.Seq[N] {
	return func(yield func(N) bool) {
		r := rand.New(rand.NewPCG(1, 2)) //nolint:gosec // a fixed seed, so that the sample is the same every time
		rate := math.Inf(1)
		if all := s.Len(); n < all {
			rate = -math.Log1p(-float64(n) / float64(all))
		}
		skip := func() int { return int(min(r.ExpFloat64()/rate, math.MaxInt32)) } // a geometric distribution
		left := skip()
		for i, w := range s {
			if found := bits.OnesCount64(w); found <= left {
				left -= found
				continue
			}
			for ; w != 0; w &= w - 1 {
				left--
				if left >= 0 {
					continue
				}
				if !yield(N(i*64 + bits.TrailingZeros64(w))) {
					return
				}
				left = skip()
			}
		}
	}
}

// A rowBits is a set of rows. It has a bit for each row up to the largest row that was added.
type rowBits []uint64

func (s rowBits) has(r Row) bool { return int(r/64) < len(s) && s[r/64]>>(r%64)&1 != 0 }

func (s *rowBits) add(r Row) {
	if n := int(r)/64 + 1; n > len(*s) {
		*s = append(*s, make([]uint64, n-len(*s))...)
	}
	(*s)[r/64] |= 1 << (r % 64)
}
