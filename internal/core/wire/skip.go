package wire

import (
	"encoding/binary"
	"math"
)

// MaxAttributes is the largest number of attributes of an entry.
const MaxAttributes = 1 << 16

// The functions of this file skip encoded entries as fast as possible. They handle only the usual forms of an
// entry. If they fail, the caller uses the decoder of package format, which handles every form.
//
// The functions get and return an offset in b. A function that cannot continue returns Nowhere, and so does a
// function that gets an offset beyond the end of b. So the caller checks only the last offset.

// Nowhere is an offset after the end of every buffer.
const Nowhere = math.MaxInt

// SkipEntry skips the entry at the beginning of b. It returns the parent and the size of the entry. If columns is
// set, the entry has version 2.
func SkipEntry(b []byte, columns bool) (parent uint32, size int, ok bool) {
	var l Layout
	n, p := Count(b, l.Parse(b, 0))
	if columns {
		p = SkipNames(b, p, n)
		values, at := Count(b, p)
		if values != n {
			return 0, 0, false
		}
		p = SkipValues(b, at, n)
	} else {
		p = skip(b, p, n, true)
	}
	return l.Parent, p, uint(p) <= uint(len(b))
}

// FindAttribute returns the offset of the value of the first attribute called name in the entry b. If there is no
// such attribute, it returns Nowhere and true. ok is false if the caller has to search b with the decoder.
func FindAttribute(b []byte, columns bool, name string) (at int, ok bool) {
	var l Layout
	n, p := Count(b, l.Parse(b, 0))
	hit := -1
	if p > len(b) || 3*n > len(b)-p { // an attribute needs at least 3 bytes: for name, kind and value
		return Nowhere, false
	}
	for i := range n {
		from := p
		p = SkipText(b, p)
		if uint(p) >= uint(len(b)) {
			return Nowhere, false
		}
		switch found := hit < 0 && string(TextAt(b, from, p)) == name; {
		case found && !columns:
			return p, true
		case found:
			hit = i
		case !columns:
			p = SkipValues(b, p, 1)
		}
	}
	if columns {
		values, from := Count(b, p)
		if hit >= 0 && values == n {
			at = SkipValues(b, from, hit)
			return at, at != Nowhere
		}
		p = SkipValues(b, from, values)
		return Nowhere, values == n && p == len(b)
	}
	return Nowhere, p == len(b)
}

// A Layout holds the parent of an entry, and the offsets of the other fields of its head.
type Layout struct {
	Parent                                           uint32
	Message, Name, Target, Level, Module, File, Line int
}

// Parse fills l from the entry at p and returns the offset of its attributes. The code for the three Optional
// strings is repeated instead of called, which saves 2 of 50 ns.
func (l *Layout) Parse(b []byte, p int) int {
	if p > len(b)-6 {
		return Nowhere
	}
	switch t := b[p]; {
	case t < Tag16:
		l.Parent = uint32(t)
		p++
	case t == Tag16:
		l.Parent = uint32(binary.LittleEndian.Uint16(b[p+1:]))
		p += 3
	case t == Tag32:
		l.Parent = binary.LittleEndian.Uint32(b[p+1:])
		p += 5
	default:
		return Nowhere
	}
	l.Message = p
	if p >= len(b) {
		return Nowhere
	}
	switch b[p] {
	case 0:
		p++
	case 1:
		p = SkipText(b, p+1)
	default:
		return Nowhere
	}
	l.Name = p
	l.Target = SkipText(b, l.Name)
	l.Level = SkipText(b, l.Target)
	p = l.Level
	if uint(p)+1 >= uint(len(b)) || b[p] >= NumLevels {
		return Nowhere
	}
	p++
	l.Module = p
	switch b[p] {
	case 0:
		p++
	case 1:
		p = SkipText(b, p+1)
	default:
		return Nowhere
	}
	l.File = p
	if uint(p) >= uint(len(b)) {
		return Nowhere
	}
	switch b[p] {
	case 0:
		p++
	case 1:
		p = SkipText(b, p+1)
	default:
		return Nowhere
	}
	l.Line = p
	if uint(p) >= uint(len(b)) {
		return Nowhere
	}
	switch b[p] {
	case 0:
		return p + 1
	case 1:
		_, p = Uint32(b, p+1)
		return p
	}
	return Nowhere
}

// Uint32 reads a number of at most 32 bits at p. It returns the number and the offset after it.
func Uint32(b []byte, p int) (uint32, int) {
	if uint(p) >= uint(len(b)) {
		return 0, Nowhere
	}
	switch t, rest := b[p], b[p+1:]; {
	case t < Tag16:
		return uint32(t), p + 1
	case t == Tag16 && len(rest) >= 2:
		return uint32(binary.LittleEndian.Uint16(rest)), p + 3
	case t == Tag32 && len(rest) >= 4:
		return binary.LittleEndian.Uint32(rest), p + 5
	}
	return 0, Nowhere
}

// Count reads the number of attributes at p. It returns the number and the offset after it.
func Count(b []byte, p int) (int, int) {
	n, p := Uint32(b, p)
	if n > MaxAttributes {
		return 0, Nowhere
	}
	return int(n), p
}

// SkipText skips a string of less than 64 KiB whose length is in its shortest form. At
// least two bytes must follow the length. The compiler inlines this function.
func SkipText(b []byte, p int) int {
	if uint(p)+2 < uint(len(b)) {
		if b[p] < Tag16 {
			return p + 1 + int(b[p])
		}
		if b[p] == Tag16 && (b[p+1] >= Tag16 || b[p+2] > 0) {
			return p + 3 + int(b[p+1]) + int(b[p+2])<<8
		}
	}
	return Nowhere
}

// TextAt returns the string at p that SkipText has skipped. The parameter end is the result of SkipText. It does
// not panic if b has changed since then.
func TextAt(b []byte, p, end int) []byte {
	at := p + 1
	if b[p] == Tag16 {
		at += 2
	}
	return b[min(at, end):end]
}

// SkipNames skips n names of version 2.
func SkipNames(b []byte, p, n int) int {
	for range n {
		p = SkipText(b, p)
	}
	return p
}

// SkipValues skips n values.
func SkipValues(b []byte, p, n int) int { return skip(b, p, n, false) }

// skip skips n values. If named is set, each value follows its name. Readers of a trace spend much time here, so
// this is one loop without calls. It branches on the bytes, because the processor predicts the branches well if
// entries are alike. With a table of sizes, it would have to wait for each byte before it finds the next.
func skip(b []byte, p, n int, named bool) int {
	for ; n > 0; n-- {
		if named {
			p = SkipText(b, p)
		}
		if uint(p)+1 >= uint(len(b)) {
			return Nowhere
		}
		kind, t := b[p], b[p+1]
		p += 2
		switch {
		case kind <= KindBytes:
			if t < Tag16 {
				p += int(t)
				continue
			}
			size, at := Uint32(b, p-1)
			if at == Nowhere || uint64(size) > uint64(len(b)-at) {
				return Nowhere
			}
			p = at + int(size)
		case kind == KindBool:
			if t > 1 {
				return Nowhere
			}
		case kind == KindFloat:
			p += 8 - 1
		case kind > KindI128:
			return Nowhere
		case t < Tag16:
		case t == Tag32:
			p += 4
		case t == Tag64:
			p += 8
		case t == Tag16:
			p += 2
		case t == Tag128 && kind >= KindU128:
			p += 16
		default:
			return Nowhere
		}
	}
	return p
}
