package viewer

import (
	"math/bits"
	"slices"

	"github.com/entrace-go/entrace/view"
)

// A rankSet is a set of ranks of the tree. It can count its members in a range, and return the k-th member.
type rankSet struct {
	view.Set[int]

	sums []uint32 // for each word of Set, the number of members in the words before it
	n    int
}

func newRankSet(n int) *rankSet { return &rankSet{Set: make(view.Set[int], n/64+1)} }

// done computes the sums. It is called after the last change.
func (s *rankSet) done() {
	s.sums = make([]uint32, len(s.Set))
	s.n = 0
	for i, w := range s.Set {
		s.sums[i] = uint32(s.n)
		s.n += bits.OnesCount64(w)
	}
}

// remove removes the members in [from, to).
func (s *rankSet) remove(from, to int) {
	for i := from; i < to; {
		if i%64 == 0 && i+64 <= to {
			s.Set[i/64] = 0
			i += 64
			continue
		}
		s.Set[i/64] &^= 1 << (i % 64)
		i++
	}
}

// before returns how many members are below i.
func (s *rankSet) before(i int) int {
	if i/64 >= len(s.Set) {
		return s.n
	}
	return int(s.sums[i/64]) + bits.OnesCount64(s.Set[i/64]&(1<<(i%64)-1))
}

// between returns how many members are in [from, to).
func (s *rankSet) between(from, to int) int { return s.before(to) - s.before(from) }

// at returns the k-th member, counted from 0. The member must exist.
func (s *rankSet) at(k int) int {
	w, _ := slices.BinarySearchFunc(s.sums, uint32(k), func(sum, k uint32) int {
		if sum <= k {
			return -1
		}
		return 1
	})
	w--
	word := s.Set[w]
	for range k - int(s.sums[w]) {
		word &= word - 1
	}
	return w*64 + bits.TrailingZeros64(word)
}

// ranksOf returns the ranks of the rows for which the func is returns true.
func ranksOf(v *view.View, is func(r view.Row, f view.Flags) bool) *rankSet {
	t := v.Tree()
	set := newRankSet(t.Len())
	for r := range v.Rows() {
		if is(r, v.Flags(r)) {
			set.Add(t.Rank(r))
		}
	}
	set.done()
	return set
}
