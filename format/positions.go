package format

import "slices"

// positions is an ascending list of offsets that needs little more than two bytes for each offset. It stores a base
// for each block of 32 offsets, and the distance of each offset from the base of its block. If a distance does not
// fit into 16 bits, wide has all offsets of the block.
//
// The zero value is an empty list. If shared is set in a copy, the copy can grow without changing the original.
type positions struct {
	bases  []uint64 // the base of each block, or wideMark combined with an index into wide
	deltas []uint16
	wide   []*[positionBlock]uint64
	shared bool // another list uses the same array of bases, so it must not be changed
}

const (
	positionBlock = 32
	wideMark      = 1 << 63
)

func (p *positions) len() int { return len(p.deltas) }

// at returns the i-th offset, which must exist.
func (p *positions) at(i int) uint64 {
	base := p.bases[i/positionBlock]
	if base&wideMark != 0 {
		return p.wide[base&^wideMark][i%positionBlock]
	}
	return base + uint64(p.deltas[i])
}

// last returns the last offset, or 0 if the list is empty.
func (p *positions) last() uint64 {
	if len(p.deltas) == 0 {
		return 0
	}
	return p.at(len(p.deltas) - 1)
}

// add appends an offset, which must be at least the last offset.
func (p *positions) add(off uint64) {
	i := len(p.deltas)
	if i%positionBlock == 0 {
		p.bases = append(p.bases, off)
		p.deltas = append(p.deltas, 0)
		return
	}
	base := p.bases[i/positionBlock]
	if base&wideMark != 0 {
		p.wide[base&^wideMark][i%positionBlock] = off
		p.deltas = append(p.deltas, 0)
		return
	}
	if off-base <= 0xffff {
		p.deltas = append(p.deltas, uint16(off-base))
		return
	}
	w := new([positionBlock]uint64)
	for k := range i % positionBlock {
		w[k] = base + uint64(p.deltas[i-i%positionBlock+k])
	}
	w[i%positionBlock] = off
	if p.shared {
		p.bases, p.shared = slices.Clone(p.bases), false
	}
	p.bases[i/positionBlock] = wideMark | uint64(len(p.wide))
	p.wide = append(p.wide, w)
	p.deltas = append(p.deltas, 0)
}

// cut keeps only the first n offsets.
func (p *positions) cut(n int) {
	if n < len(p.deltas) {
		p.deltas = p.deltas[:n:n]
		p.bases = slices.Clone(p.bases[:(n+positionBlock-1)/positionBlock])
	}
}

// grow makes room for a total of n offsets.
func (p *positions) grow(n int) {
	if n > cap(p.deltas) {
		p.deltas = append(make([]uint16, 0, n), p.deltas...)
		p.bases = append(make([]uint64, 0, n/positionBlock+1), p.bases...)
	}
}
