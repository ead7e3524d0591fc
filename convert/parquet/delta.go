package parquet

import (
	"encoding/binary"
	"fmt"
)

// The encodings of Parquet that hold differences. The numbers are its own.
const (
	encodingDelta       = 5 // whole numbers
	encodingDeltaLength = 6 // bytes: their lengths, then themselves
	encodingDeltaBytes  = 7 // bytes: how many begin the value before, then the rest
	encodingSplit       = 9 // the bytes of numbers, all first ones first
)

// A delta reads whole numbers in DELTA_BINARY_PACKED. It takes no memory.
type delta struct {
	b       []byte
	left    uint64 // numbers, the next one included
	value   int64  // the next one
	perMini uint64
	minis   int
	widths  []byte // of the miniblocks of the block that are not begun
	min     int64
	mini    []byte
	width   uint
	bit     uint64
	inMini  uint64
}

// newDelta reads the head of the numbers in b.
func newDelta(b []byte) (d delta, ok bool) {
	d.b = b
	block, ok1 := d.uint()
	minis, ok2 := d.uint()
	left, ok3 := d.uint()
	first, ok4 := d.uint()
	if !ok1 || !ok2 || !ok3 || !ok4 || minis == 0 || minis > 1<<12 || block > 1<<20 || block%minis != 0 || block/minis%8 != 0 {
		return d, false
	}
	d.left, d.value = left, unzigzag(first)
	d.minis, d.perMini = int(minis), block/minis
	return d, d.perMini > 0
}

func unzigzag(n uint64) int64 { return int64(n>>1) ^ -int64(n&1) }

func (d *delta) uint() (uint64, bool) {
	n, size := binary.Uvarint(d.b)
	if size <= 0 {
		return 0, false
	}
	d.b = d.b[size:]
	return n, true
}

// next returns the next number.
func (d *delta) next() (int64, bool) {
	if d.left == 0 {
		return 0, false
	}
	v := d.value
	if d.left--; d.left == 0 {
		return v, true
	}
	if d.inMini == 0 && !d.begin() {
		return 0, false
	}
	d.inMini--
	d.value += d.min + int64(bitsAt(d.mini, d.bit, d.width))
	d.bit += uint64(d.width)
	return v, true
}

// begin goes to the next miniblock, of the next block if need be.
func (d *delta) begin() bool {
	if len(d.widths) == 0 {
		low, ok := d.uint()
		if !ok || len(d.b) < d.minis {
			return false
		}
		d.min = unzigzag(low)
		d.widths, d.b = d.b[:d.minis], d.b[d.minis:]
	}
	d.width, d.widths = uint(d.widths[0]), d.widths[1:]
	if d.width > 64 {
		return false
	}
	size := d.perMini / 8 * uint64(d.width)
	if size > uint64(len(d.b)) {
		return false
	}
	d.mini, d.b = d.b[:size], d.b[size:]
	d.bit, d.inMini = 0, d.perMini
	return true
}

// rest returns what is behind the numbers, none of which may have been read. It
// returns false where there are more than limit or they are damaged.
func (d *delta) rest(limit int64) ([]byte, bool) {
	c := *d
	if c.left > uint64(limit) {
		return nil, false
	}
	for c.left > 1 {
		if !c.begin() {
			return nil, false
		}
		c.left -= min(c.left-1, c.inMini)
		c.inMini = 0
	}
	return c.b, true
}

// bitsAt returns the number of width bits that begins at a bit of b.
func bitsAt(b []byte, bit uint64, width uint) uint64 {
	var n uint64
	for got := uint(0); got < width; {
		at, shift := bit/8, uint(bit%8)
		if at >= uint64(len(b)) {
			break
		}
		n |= uint64(b[at]>>shift) << got
		got += 8 - shift
		bit += uint64(8 - shift)
	}
	if width < 64 {
		n &= 1<<width - 1
	}
	return n
}

// differences begins with a page whose values are differences.
func (l *leaf) differences(h *pageHeader) error {
	size := fixedSize(l.physical)
	ok := len(l.data) == 0 // all are null
	l.lengths, l.prefix = delta{}, delta{}
	switch l.deltas = h.encoding; {
	case ok:
	case h.encoding == encodingDelta && (l.physical == typeInt32 || l.physical == typeInt64):
		l.lengths, ok = newDelta(l.data)
	case h.encoding == encodingSplit && size > 0:
		ok = len(l.data)%size == 0
	case h.encoding == encodingDeltaLength && l.physical == typeByteArray:
		if l.lengths, ok = newDelta(l.data); ok {
			l.data, ok = l.lengths.rest(h.numValues)
		}
	case h.encoding == encodingDeltaBytes && l.physical == typeByteArray:
		l.last = nil
		if l.prefix, ok = newDelta(l.data); !ok {
			break
		}
		if l.data, ok = l.prefix.rest(h.numValues); !ok {
			break
		}
		if l.lengths, ok = newDelta(l.data); ok {
			l.data, ok = l.lengths.rest(h.numValues)
		}
	default:
		return problem(ErrUnsupported, fmt.Sprint("values in encoding ", h.encoding))
	}
	if !ok {
		return problem(ErrCorrupt, "the head of the values is damaged")
	}
	l.step = len(l.data)
	if size > 0 {
		l.step /= size
	}
	return nil
}

// difference returns the bytes of the next value of a page of differences.
func (l *leaf) difference(size int) ([]byte, error) {
	early := problem(ErrCorrupt, "the values end early")
	if len(l.data) == 0 && l.lengths.left == 0 {
		return nil, early
	}
	switch l.deltas {
	case encodingDelta:
		n, ok := l.lengths.next()
		if !ok {
			return nil, early
		}
		binary.LittleEndian.PutUint64(l.number[:], uint64(n))
		return l.number[:size], nil
	case encodingSplit:
		if int(l.bit) >= l.step {
			return nil, early
		}
		for i := range size {
			l.number[i] = l.data[i*l.step+int(l.bit)]
		}
		l.bit++
		return l.number[:size], nil
	}
	n, ok := l.lengths.next()
	if !ok || n < 0 || n > int64(len(l.data)) {
		return nil, early
	}
	b := l.data[:n:n]
	l.data = l.data[n:]
	if l.deltas == encodingDeltaBytes {
		common, ok := l.prefix.next()
		if !ok || common < 0 || common > int64(len(l.last)) {
			return nil, early
		}
		if common > 0 {
			b = append(l.last[:common:common], b...)
		}
		l.last = b
	}
	return b, nil
}
