package parquet

import (
	"encoding/binary"
	"math"
)

// A hybrid reads numbers of a few bits in Parquet's mix of run lengths and packed
// bits. It takes no memory, whatever a run claims.
type hybrid struct {
	b      []byte
	width  uint
	run    uint64 // how many numbers are left of the run
	value  uint32 // all of a run that is not packed
	packed []byte // the run that is packed
	bit    uint64 // where in packed the next number begins
}

// next returns the next number, and false where there is none.
func (h *hybrid) next() (uint32, bool) {
	for h.run == 0 {
		if !h.head() {
			return 0, false
		}
	}
	h.run--
	if h.packed == nil {
		return h.value, true
	}
	at, shift := h.bit/8, h.bit%8
	h.bit += uint64(h.width)
	var word uint64
	if rest := h.packed[min(at, uint64(len(h.packed))):]; len(rest) >= 8 {
		word = binary.LittleEndian.Uint64(rest)
	} else {
		for i, c := range rest {
			word |= uint64(c) << (8 * i)
		}
	}
	return uint32(word >> shift & (1<<h.width - 1)), true
}

// head reads the head of a run.
func (h *hybrid) head() bool {
	n, size := binary.Uvarint(h.b)
	if size <= 0 || h.width > 32 {
		return false
	}
	h.b = h.b[size:]
	if n&1 == 0 {
		size := int(h.width+7) / 8
		if size > len(h.b) {
			return false
		}
		h.run, h.packed, h.value = n>>1, nil, 0
		for i, c := range h.b[:size] {
			h.value |= uint32(c) << (8 * i)
		}
		h.b = h.b[size:]
		return true
	}
	// Eight numbers a group; some writers leave out what pads the last one.
	groups := n >> 1
	if h.width > 0 && groups > uint64(len(h.b))+1 || groups > math.MaxUint64/64 {
		return false
	}
	length := min(groups*uint64(h.width), uint64(len(h.b)))
	h.run = groups * 8
	if h.width > 0 {
		h.run = min(h.run, length*8/uint64(h.width))
	}
	h.packed, h.bit = h.b[:length:length], 0
	if h.packed == nil {
		h.packed = []byte{}
	}
	h.b = h.b[length:]
	return true
}

// bitsOf returns how many bits numbers up to n take.
func bitsOf(n int) uint {
	var bits uint
	for ; n > 0; n >>= 1 {
		bits++
	}
	return bits
}
