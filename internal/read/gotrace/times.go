package gotrace

import (
	"encoding/binary"
	"math/bits"
)

// Unpacked times of spans would take most of the memory of a trace, though nearly all are zero. So they are
// packed into one slice of bytes. For each span it has the times and then the own times. Each of them begins
// with two bytes, whose bits mark the states that follow, each as a varint. If isOwn is set, the own times are
// equal to the times, and are left out.

// isOwn is the bit which says that the own times are equal to the times.
const isOwn = 1 << 15

// Times returns the times of the goroutine of a span in Spans, from the begin of the span to its end. If the
// span was handed over, the times after the handover are the times of the new goroutine. If the handover is
// not known, all are zero.
func (t *Trace) Times(s *Span) Times {
	times, _ := t.timesOf(s)
	return times
}

// Own returns the part of [Trace.Times] during which no later span was open on the same goroutine.
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

// keep stores the times of a span. Earlier times of the span remain in the slice.
func (t *Trace) keep(s *Span, times, own *Times) {
	if len(t.packed) == 0 {
		t.packed = append(t.packed, 0) // an offset of 0 means no times
	}
	s.times = uint32(len(t.packed)) // maxSpans times the longest encoding is below 1<<28
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
