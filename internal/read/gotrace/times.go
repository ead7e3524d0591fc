package gotrace

import (
	"encoding/binary"
	"math/bits"
)

// The times of all spans would need most of the memory of a trace, although nearly all times are zero. They are
// therefore packed into one slice of bytes: for each span first its times and then its own times. Both lists begin
// with two bytes, which have a bit for each state whose time is not zero. The times of these states follow as
// varints. If the bit isOwn is set, the own times are equal to the times, and are left out.

// isOwn is the bit for own times that are equal to the times.
const isOwn = 1 << 15

// Times returns the time that a span's goroutine was in each state, from the begin of the span to its end. If the
// span was handed over, Times returns the time of the new goroutine after the handover. If the handover is not known,
// all times are zero.
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

// setTimes stores the times of a span. If the span already had times, the old times stay in the slice, unused.
func (t *Trace) setTimes(s *Span, times, own *Times) {
	if len(t.packed) == 0 {
		t.packed = append(t.packed, 0) // offset 0 means that a span has no times
	}
	s.times = uint32(len(t.packed)) // no overflow: the longest encoding for maxSpans spans is less than 1<<28 bytes
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
