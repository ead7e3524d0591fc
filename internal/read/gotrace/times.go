package gotrace

import (
	"encoding/binary"
	"math/bits"
)

// The times of spans would take most of the memory of a trace, though nearly all are zero. So they are packed into one slice
// of bytes: two bytes say which states follow, each as a varint, first of the times and then of the own times. If isOwn is
// set, the own times are the same, and are left out.

// isOwn says that the own times are the times.
const isOwn = 1 << 15

// Times returns what the goroutine of a span in Spans did from the begin of the span to its end: where it was handed to another
// goroutine, that one from there. They are all zero where that is not known.
func (t *Trace) Times(s *Span) Times {
	times, _ := t.timesOf(s)
	return times
}

// Own returns those of [Trace.Times] in which no other span was open on its goroutine that began later.
func (t *Trace) Own(s *Span) Times {
	_, own := t.timesOf(s)
	return own
}

func (t *Trace) timesOf(s *Span) (times, own Times) {
	if s.times == 0 {
		return times, own
	}
	mask, b := times.unpack(t.packed[s.times:])
	if mask&isOwn != 0 {
		return times, times
	}
	own.unpack(b)
	return times, own
}

// keep sets the times of a span. What had been kept of it stays in the slice.
func (t *Trace) keep(s *Span, times, own *Times) {
	if len(t.packed) == 0 {
		t.packed = append(t.packed, 0) // Span.times of 0 has none
	}
	s.times = uint32(len(t.packed)) // maxSpans of the longest are below 1<<28
	if *own == *times {
		t.packed = times.pack(t.packed, isOwn)
		return
	}
	t.packed = own.pack(times.pack(t.packed, 0), 0)
}

func (t *Times) pack(b []byte, mask uint16) []byte {
	at := len(b)
	b = append(b, 0, 0)
	for s, d := range t {
		if d != 0 {
			mask |= 1 << s
			b = binary.AppendUvarint(b, uint64(d))
		}
	}
	binary.LittleEndian.PutUint16(b[at:], mask)
	return b
}

func (t *Times) unpack(b []byte) (mask uint16, rest []byte) {
	mask, b = binary.LittleEndian.Uint16(b), b[2:]
	for m := mask &^ isOwn; m != 0; m &= m - 1 {
		d, n := binary.Uvarint(b)
		t[bits.TrailingZeros16(m)], b = uint32(d), b[n:]
	}
	return mask, b
}
