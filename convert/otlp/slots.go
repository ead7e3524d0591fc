package otlp

import (
	"hash/maphash"

	"github.com/entrace-go/entrace/convert/internal/input"
)

// A spanKey is a trace id and a span id.
type spanKey [24]byte

// A slot belongs to a span that is in the input, or is the parent of a record.
type slot struct {
	key    spanKey
	record uint32 // number of the span's record plus one; 0: the span is not in the input
}

// slots assigns numbers to spans by their ids. It needs about 40 bytes per span.
type slots struct {
	all  input.List[slot]
	seed maphash.Seed

	// table is a hash table of numbers; 0 means free. Invariants: its length is 0 or a power of two, and at least a
	// quarter of it is free. A number is at the position that the hash of its key selects, or after it with no free
	// position in between.
	table []uint32
}

// find returns the number of the slot for key. It adds a slot if there is none. Number 0 belongs to no span.
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
