package view

import (
	"iter"
	"math/bits"
)

// A Set is a set of numbers, such as rows: a bit for each. It is not safe for concurrent use while it changes.
type Set[N ~int | ~uint32] []uint64

// NewSet returns an empty set of rows of v.
func (v *View) NewSet() Set[Row] { return make(Set[Row], len(v.blocks)*blockRows/64) }

// Has reports whether n, for which there must be room, is in the set.
func (s Set[N]) Has(n N) bool { return s[n/64]>>(n%64)&1 != 0 }

// Add adds n, for which there must be room.
func (s Set[N]) Add(n N) { s[n/64] |= 1 << (n % 64) }

// Len returns how many numbers are in the set.
func (s Set[N]) Len() int {
	n := 0
	for _, w := range s {
		n += bits.OnesCount64(w)
	}
	return n
}

// All returns the numbers in the set, ascending.
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
