package otlp

import (
	"hash/maphash"

	"github.com/entrace-go/entrace/convert/internal/input"
)

// A spanKey is a trace id and a span id.
type spanKey [24]byte

// A slot belongs to a span that is in the input, or that a record names as its parent.
type slot struct {
	key    spanKey
	record uint32 // the number of the span's record plus one; 0: the span is not in the input
}

// slots maps spans to numbers by their ids. It takes about 40 bytes per span.
type slots struct {
	all  input.List[slot]
	seed maphash.Seed

	// Invariants: the length is a power of two, or zero; at least a quarter of the table is 0, which means free. A
	// number is at the home position of its key or after it, with no free position in between.
	table []uint32
}

// find returns the number of the slot for key, and adds a slot if there is none. Slot 0 belongs to no span.
func (s *slots) find(key *spanKey) uint32 {
	if s.all.Len()*4 >= len(s.table)*3 {
		s.grow()
	}
	mask := uint64(len(s.table) - 1)
	i := maphash.Bytes(s.seed, key[:]) & mask
	for ; s.table[i] != 0; i = (i + 1) & mask {
		if s.all.At(int(s.table[i])).key == *key {
			return s.table[i]
		}
	}
	n := uint32(s.all.Len())
	s.all.Add(slot{key: *key})
	s.table[i] = n
	return n
}

func (s *slots) grow() {
	if s.table == nil {
		s.seed = maphash.MakeSeed()
		s.all.Add(slot{})
	}
	s.table = make([]uint32, max(64, 2*len(s.table)))
	mask := uint64(len(s.table) - 1)
	for n := 1; n < s.all.Len(); n++ {
		i := maphash.Bytes(s.seed, s.all.At(n).key[:]) & mask
		for s.table[i] != 0 {
			i = (i + 1) & mask
		}
		s.table[i] = uint32(n)
	}
}
