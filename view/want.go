package view

import (
	"math"

	"github.com/entrace-go/entrace/internal/core/spanmap"
)

// A want is a reference from a row to a span whose row must be found. The span is the parent of the row, the span
// of a log record, or the first half of the row's own span.
type want struct {
	span uint64
	row  Row
	half bool
}

// wants is a hash table of wants by the trace and id of the span.
type wants struct {
	all   []want
	next  []int32 // by index in all: the index of the next want of the same span; -1 at the end
	slots []wantSlot
	used  int
	seen  []uint64 // a Bloom filter over the trace and the low half of the span id
}

// A wantSlot is a slot of the hash table. It stands for one span to which rows refer.
type wantSlot struct {
	span  uint64
	trace uint32
	first int32 // the index in wants.all plus 1; 0 if the slot is free
	// found has at most two rows of each file: the first row of the span, and the first row that did not begin in
	// an earlier file. starts has only the rows of the second kind. If found is long, files has the same
	// information by file.
	found, starts []Row
	files         map[*growingFile]hit
}

// A hit describes the rows of a wanted span in one file.
type hit struct {
	first  Row
	starts bool // one of the rows did not begin in an earlier file
}

// add adds a want of a span of the given trace.
func (w *wants) add(x want, trace uint32) {
	if 2*w.used >= len(w.slots) {
		old := w.slots
		w.slots = make([]wantSlot, max(64, 2*len(old)))
		w.seen = make([]uint64, len(w.slots)/16)
		for _, s := range old {
			if s.first != 0 {
				*w.slot(s.trace, s.span) = s
				w.see(s.trace, s.span)
			}
		}
	}
	s := w.slot(trace, x.span)
	if s.first == 0 {
		w.used++
		s.trace, s.span = trace, x.span
		w.see(trace, x.span)
	}
	w.all, w.next = append(w.all, x), append(w.next, s.first-1)
	s.first = int32(len(w.all))
}

// see adds a span to the Bloom filter.
func (w *wants) see(trace uint32, span uint64) {
	bit := spanmap.Hash(uint64(trace), span&math.MaxUint32) % uint64(64*len(w.seen))
	w.seen[bit/64] |= 1 << (bit % 64)
}

// wanted reports whether a want of a span with this trace and this low half of its id may exist.
func (w *wants) wanted(trace, low uint32) bool {
	bit := spanmap.Hash(uint64(trace), uint64(low)) % uint64(64*len(w.seen))
	return w.seen[bit/64]>>(bit%64)&1 != 0
}

func (w *wants) slot(trace uint32, span uint64) *wantSlot {
	mask := uint64(len(w.slots) - 1)
	for i := spanmap.Hash(uint64(trace), span) & mask; ; i = (i + 1) & mask {
		if s := &w.slots[i]; s.first == 0 || s.trace == trace && s.span == span {
			return s
		}
	}
}
