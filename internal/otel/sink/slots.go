package sink

import (
	"github.com/entrace-go/entrace/internal/core/chunked"
	"github.com/entrace-go/entrace/internal/core/spanmap"
)

// A slot belongs to a span that is in the input, or is the parent of a record.
type slot struct {
	key    spanmap.Key
	record uint32 // number of the span's record plus one; 0: the span is not in the input
}

// slots assigns numbers to spans by their ids. It needs about 40 bytes per span.
type slots struct {
	all chunked.List[slot]

	// table is a hash table of numbers; 0 means free. Invariants: its length is 0 or a power of two, and at least a
	// quarter of it is free. A number is at the position that the hash of its key selects, or at a later position
	// with no free position in between.
	table []uint32
}

func (s *slots) reset() {
	s.all.Reset()
	clear(s.table)
}

// of returns the slot of a span, or 0 for a span without an id. It adds a slot if the span has no slot.
func (s *slots) of(trace *[16]byte, span *[8]byte) uint32 {
	if *span == [8]byte{} || *trace == [16]byte{} {
		return 0
	}
	var key spanmap.Key
	copy(key[:16], trace[:])
	copy(key[16:], span[:])
	if s.all.Len() == 0 {
		s.all.Add(slot{}) // slot 0 belongs to no span
	}
	if s.all.Len()*4 >= len(s.table)*3 {
		s.grow()
	}
	mask := uint64(len(s.table) - 1)
	i := spanmap.HashKey(&key) & mask
	for ; s.table[i] != 0; i = (i + 1) & mask {
		if s.all.At(int(s.table[i])).key == key {
			return s.table[i]
		}
	}
	n := uint32(s.all.Len())
	s.all.Add(slot{key: key})
	s.table[i] = n
	return n
}

func (s *slots) grow() {
	s.table = make([]uint32, max(64, 2*len(s.table)))
	mask := uint64(len(s.table) - 1)
	for n := 1; n < s.all.Len(); n++ {
		i := spanmap.HashKey(&s.all.At(n).key) & mask
		for s.table[i] != 0 {
			i = (i + 1) & mask
		}
		s.table[i] = uint32(n)
	}
}
