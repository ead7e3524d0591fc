package format

import (
	"encoding/binary"
	"math"

	"github.com/entrace-go/entrace/internal/wire"
)

// The quick functions pass over entries as fast as can be. They know what nearly
// all entries look like and leave the others to the decoder, which finds what is
// wrong with them, or that nothing is: what they accept the decoder accepts, too.
//
// They take and return a place in b. One that cannot go on returns nowhere, and
// so does one that is given a place behind b: it is enough to compare the last
// place with the end.

// nowhere is a place behind every buffer.
const nowhere = math.MaxInt

// quickEntry passes over the entry of version v that b begins with.
func quickEntry(b []byte, v Version) (parent uint32, size int, ok bool) {
	var h quickHead
	n, p := quickCount(b, h.decode(b))
	if v.hasAttrColumns() {
		p = quickNames(b, p, n)
		values, at := quickCount(b, p)
		if values != n {
			return 0, 0, false
		}
		p = quickValues(b, at, n)
	} else {
		p = quickPairs(b, p, n)
	}
	return h.parent, p, uint(p) <= uint(len(b))
}

// quickAttribute finds the value of the first attribute of that name in the entry b of
// version v, nowhere if there is none.
func quickAttribute(b []byte, v Version, name string) (at int, ok bool) {
	var h quickHead
	n, p := quickCount(b, h.decode(b))
	columns, hit := v.hasAttrColumns(), -1
	if p > len(b) || 3*n > len(b)-p { // a name, a kind and a value each
		return nowhere, false
	}
	for i := range n {
		from := p
		if p = quickText(b, p); uint(p) >= uint(len(b)) {
			return nowhere, false
		}
		switch found := hit < 0 && string(textIn(b, from, p)) == name; {
		case found && !columns:
			return p, true
		case found:
			hit = i
		case !columns:
			p = quickValues(b, p, 1)
		}
	}
	if columns {
		values, from := quickCount(b, p)
		if hit >= 0 && values == n {
			at = quickValues(b, from, hit)
			return at, at != nowhere
		}
		p = quickValues(b, from, values)
		return nowhere, values == n && p == len(b)
	}
	return nowhere, p == len(b)
}

// A quickHead is what an entry has before its attributes: its parent and where in
// the buffer the other fields begin.
type quickHead struct {
	parent                                           uint32
	message, name, target, level, module, file, line int
}

// decode fills h from the entry that b begins with and returns where it ends. The
// three Optional strings are written out: that saves two of fifty nanoseconds.
func (h *quickHead) decode(b []byte) int {
	if len(b) < 6 {
		return nowhere
	}
	p := 1
	switch t := b[0]; {
	case t < wire.Tag16:
		h.parent = uint32(t)
	case t == wire.Tag16:
		h.parent, p = uint32(binary.LittleEndian.Uint16(b[1:])), 3
	case t == wire.Tag32:
		h.parent, p = binary.LittleEndian.Uint32(b[1:]), 5
	default:
		return nowhere
	}
	h.message = p
	switch b[p] {
	case 0:
		p++
	case 1:
		p = quickText(b, p+1)
	default:
		return nowhere
	}
	h.name = p
	h.target = quickText(b, h.name)
	h.level = quickText(b, h.target)
	p = h.level
	if uint(p)+1 >= uint(len(b)) || b[p] >= numLevels {
		return nowhere
	}
	p++
	h.module = p
	switch b[p] {
	case 0:
		p++
	case 1:
		p = quickText(b, p+1)
	default:
		return nowhere
	}
	h.file = p
	if uint(p) >= uint(len(b)) {
		return nowhere
	}
	switch b[p] {
	case 0:
		p++
	case 1:
		p = quickText(b, p+1)
	default:
		return nowhere
	}
	h.line = p
	if uint(p) >= uint(len(b)) {
		return nowhere
	}
	switch b[p] {
	case 0:
		return p + 1
	case 1:
		_, p = quickUint(b, p+1)
		return p
	}
	return nowhere
}

// quickUint reads a number of 32 bits.
func quickUint(b []byte, p int) (uint32, int) {
	if uint(p) >= uint(len(b)) {
		return 0, nowhere
	}
	switch t, rest := b[p], b[p+1:]; {
	case t < wire.Tag16:
		return uint32(t), p + 1
	case t == wire.Tag16 && len(rest) >= 2:
		return uint32(binary.LittleEndian.Uint16(rest)), p + 3
	case t == wire.Tag32 && len(rest) >= 4:
		return binary.LittleEndian.Uint32(rest), p + 5
	}
	return 0, nowhere
}

// quickCount reads the number of attributes.
func quickCount(b []byte, p int) (int, int) {
	n, p := quickUint(b, p)
	if n > MaxAttributes {
		return 0, nowhere
	}
	return int(n), p
}

// quickText passes over a string of less than 64 KiB whose length is in its
// shortest form. What comes behind it takes two bytes at least. The compiler
// inlines it.
func quickText(b []byte, p int) int {
	if uint(p)+2 < uint(len(b)) {
		if b[p] < wire.Tag16 {
			return p + 1 + int(b[p])
		}
		if b[p] == wire.Tag16 && (b[p+1] >= wire.Tag16 || b[p+2] > 0) {
			return p + 3 + int(b[p+1]) + int(b[p+2])<<8
		}
	}
	return nowhere
}

// textIn returns the string that quickText has passed over from p to end. It does
// not rely on it still being there.
func textIn(b []byte, p, end int) []byte {
	at := p + 1
	if b[p] == wire.Tag16 {
		at += 2
	}
	return b[min(at, end):end]
}

// quickNames passes over n names of version 2.
func quickNames(b []byte, p, n int) int {
	for range n {
		p = quickText(b, p)
	}
	return p
}

// quickValues passes over n values of version 2.
func quickValues(b []byte, p, n int) int {
	_, p, _ = quickFind(b, p, n, false, 0, nil)
	return p
}

// quickPairs passes over n attributes of version 1.
func quickPairs(b []byte, p, n int) int {
	_, p, _ = quickFind(b, p, n, true, 0, nil)
	return p
}

// quickFind passes over n values, which are named in version 1. It returns early
// with a name, from at to end, whose size is one of sizes and whose last byte is
// one of lasts, and with how many values are left from there on. The size is that
// of the encoding, as a bit modulo 64. With none left the end is that of all.
//
// A scan spends most of its time here. So this is one loop without calls, and it
// branches on what comes, which the processor foresees where entries are alike: a
// table of sizes would have it wait for every byte.
func quickFind(b []byte, p, n int, named bool, sizes uint64, lasts *[256]bool) (at, end, left int) {
	for ; n > 0; n-- {
		if named {
			at = p
			p = quickText(b, p)
			if sizes&(1<<(uint(p-at)&63)) != 0 && uint(p) < uint(len(b)) && lasts[b[p-1]] {
				return at, p, n
			}
		}
		if uint(p)+1 >= uint(len(b)) {
			return 0, nowhere, 0
		}
		kind, t := Kind(b[p]), b[p+1]
		p += 2
		switch {
		case kind <= KindBytes:
			if t < wire.Tag16 {
				p += int(t)
				continue
			}
			size, at := quickUint(b, p-1)
			if at == nowhere || uint64(size) > uint64(len(b)-at) {
				return 0, nowhere, 0
			}
			p = at + int(size)
		case kind == KindBool:
			if t > 1 {
				return 0, nowhere, 0
			}
		case kind == KindFloat:
			p += 8 - 1
		case kind > KindI128:
			return 0, nowhere, 0
		case t < wire.Tag16:
		case t == wire.Tag32:
			p += 4
		case t == wire.Tag64:
			p += 8
		case t == wire.Tag16:
			p += 2
		case t == wire.Tag128 && kind >= KindU128:
			p += 16
		default:
			return 0, nowhere, 0
		}
	}
	return 0, p, 0
}
