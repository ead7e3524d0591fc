package otlp

import "hash/maphash"

// A list is a slice that grows without copying more than its first chunk, as the
// copy would take as much memory again.
type list[T any] struct {
	chunks [][]T
	n      int
}

const chunkBits = 14

func (l *list[T]) at(i int) *T { return &l.chunks[i>>chunkBits][i&(1<<chunkBits-1)] }

func (l *list[T]) add(v T) {
	if l.n>>chunkBits == len(l.chunks) {
		var chunk []T
		if l.n > 0 {
			chunk = make([]T, 0, 1<<chunkBits)
		}
		l.chunks = append(l.chunks, chunk)
	}
	last := &l.chunks[len(l.chunks)-1]
	*last = append(*last, v)
	l.n++
}

// A spanKey is a trace id and a span id.
type spanKey [24]byte

// A slot is of one span that is in the input, or that something names as its parent.
type slot struct {
	key    spanKey
	record uint32 // one more than the record of the span; 0: there is none
}

// slots numbers spans by their ids, in about 40 bytes each.
type slots struct {
	all  list[slot]
	seed maphash.Seed

	// Invariants: a power of two, or nothing; a quarter of it, at least, is 0,
	// which is free. A number is at the home of its key or behind it, with nothing
	// free between.
	table []uint32
}

// find returns the number of a slot, a new one if need be. Slot 0 is of no span.
func (s *slots) find(key *spanKey) uint32 {
	if s.all.n*4 >= len(s.table)*3 {
		s.grow()
	}
	mask := uint64(len(s.table) - 1)
	i := maphash.Bytes(s.seed, key[:]) & mask
	for ; s.table[i] != 0; i = (i + 1) & mask {
		if s.all.at(int(s.table[i])).key == *key {
			return s.table[i]
		}
	}
	n := uint32(s.all.n)
	s.all.add(slot{key: *key})
	s.table[i] = n
	return n
}

func (s *slots) grow() {
	if s.table == nil {
		s.seed = maphash.MakeSeed()
		s.all.add(slot{})
	}
	s.table = make([]uint32, max(64, 2*len(s.table)))
	mask := uint64(len(s.table) - 1)
	for n := 1; n < s.all.n; n++ {
		i := maphash.Bytes(s.seed, s.all.at(n).key[:]) & mask
		for s.table[i] != 0 {
			i = (i + 1) & mask
		}
		s.table[i] = uint32(n)
	}
}
