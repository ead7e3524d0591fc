package query

import (
	endian "encoding/binary"
	"hash/maphash"
	"math"
	"slices"
	"strings"
)

const (
	groupChunk = 1 << 12 // groups whose accumulators lie together
	keyChunk   = 1 << 16 // bytes of keys that lie together
)

// A groups holds accumulators by a key, which appendKey makes. It is made of a few large pieces,
// so that a million groups cost little memory and little garbage collection.
type groups struct {
	width int // accumulators of a group
	seed  maphash.Seed
	slots []uint64 // by hash: the hash, and in the lower half one more than the number of a group; 0 if free
	keys  []string // of each group
	text  strings.Builder
	accs  [][]accumulator
	bytes []byte // of a key that is looked for
}

func newGroups(width int) *groups {
	return &groups{width: width, seed: maphash.MakeSeed(), slots: make([]uint64, 2*groupChunk)}
}

// acc returns the accumulator i of group n.
func (g *groups) acc(n, i int) *accumulator {
	return &g.accs[n/groupChunk][n%groupChunk*g.width+i]
}

// slot returns where the group of a key that has a hash is, or where one can be put.
func (g *groups) slot(hash uint32, key []byte) *uint64 {
	mask := uint32(len(g.slots) - 1)
	for at := hash; ; at++ {
		s := &g.slots[at&mask]
		if *s == 0 || uint32(*s>>32) == hash && g.keys[uint32(*s)-1] == string(key) {
			return s
		}
	}
}

// of returns the number of the group of a key. It makes one if there is none.
func (g *groups) of(key []byte) int {
	hash := uint32(maphash.Bytes(g.seed, key))
	slot := g.slot(hash, key)
	if *slot != 0 {
		return int(uint32(*slot)) - 1
	}
	n := len(g.keys)
	if n%groupChunk == 0 && n/groupChunk == len(g.accs) {
		g.accs = append(g.accs, make([]accumulator, groupChunk*g.width))
	}
	if g.text.Cap()-g.text.Len() < len(key) {
		g.text.Reset() // the keys before keep what they lie in
		g.text.Grow(max(keyChunk, len(key)))
	}
	g.text.Write(key)
	g.keys = append(g.keys, g.text.String()[g.text.Len()-len(key):])
	*slot = uint64(hash)<<32 | uint64(n+1)
	if len(g.keys) > len(g.slots)/4*3 {
		old := g.slots
		g.slots = make([]uint64, 2*len(old))
		mask := uint32(len(g.slots) - 1)
		for _, s := range old {
			if s == 0 {
				continue
			}
			at := uint32(s >> 32)
			for g.slots[at&mask] != 0 {
				at++
			}
			g.slots[at&mask] = s
		}
	}
	return n
}

// add adds the row of e to the group of a key.
func (g *groups) add(e *env, keep []keeps, key []byte) {
	n := g.of(key)
	for i := range keep {
		g.acc(n, i).add(&keep[i], keep[i].of(e))
	}
}

// clear forgets all groups, and keeps the memory of some.
func (g *groups) clear() {
	clear(g.slots)
	clear(g.keys)
	g.keys = g.keys[:0]
	g.text.Reset()
	g.accs = g.accs[:min(1, len(g.accs))]
	for _, chunk := range g.accs {
		clear(chunk)
	}
}

// merge adds the groups of another goroutine, as long as there are not more than a limit. It reports
// whether all are in.
func (g *groups) merge(keep []keeps, other *groups, limit int) bool {
	for m, key := range other.keys {
		g.bytes = append(g.bytes[:0], key...)
		n := g.of(g.bytes)
		if len(g.keys) > limit {
			return false
		}
		for i := range keep {
			g.acc(n, i).merge(&keep[i], other.acc(m, i))
		}
	}
	return true
}

// sorted returns the numbers of the groups in the order of their keys.
func (g *groups) sorted() []int {
	list := make([]int, len(g.keys))
	for i := range list {
		list[i] = i
	}
	slices.SortFunc(list, func(a, b int) int { return strings.Compare(g.keys[a], g.keys[b]) })
	return list
}

// appendKey appends bytes that tell values apart, and sort as they do. Numbers that are equal have
// the same.
func appendKey(b []byte, v Value) []byte {
	v = canonical(v)
	kind, whole := v.kind, v.n
	switch kind {
	case kindString:
		b = append(b, byte(kind))
		if strings.IndexByte(v.s, 0) < 0 {
			return append(append(b, v.s...), 0, 0)
		}
		return append(append(b, strings.ReplaceAll(v.s, "\x00", "\x00\x01")...), 0, 0)
	case kindInt, kindUint, kindFloat: // numbers are equal whatever their kind
		f, _ := v.number()
		bits := math.Float64bits(f)
		if bits>>63 != 0 {
			bits = ^bits
		} else {
			bits |= 1 << 63
		}
		b = endian.BigEndian.AppendUint64(append(b, byte(kindFloat)), bits)
		if isSmall(f) {
			return b // which tells it
		}
		if kind == kindFloat {
			whole = 0
		}
	default:
		b = append(b, byte(kind))
	}
	return endian.BigEndian.AppendUint64(b, uint64(whole)^1<<63)
}

// isSmall reports whether a float is the only whole number that is nearest to it.
func isSmall(f float64) bool { return f == math.Trunc(f) && math.Abs(f) < 1<<53 }

// cutKey returns the first value of a key, and the other ones.
func cutKey(key string) (v Value, rest string) {
	number := func() uint64 {
		n := endian.BigEndian.Uint64([]byte(key[:8]))
		key = key[8:]
		return n
	}
	v.kind, key = valueKind(key[0]), key[1:]
	switch v.kind {
	case kindString:
		v.s, key, _ = strings.Cut(key, "\x00\x00")
		if strings.IndexByte(v.s, 0) >= 0 {
			v.s = strings.ReplaceAll(v.s, "\x00\x01", "\x00")
		}
	case kindFloat:
		bits := number()
		if bits>>63 != 0 {
			bits &^= 1 << 63
		} else {
			bits = ^bits
		}
		f := math.Float64frombits(bits)
		if isSmall(f) {
			v = intValue(int64(f))
			break
		}
		switch n := number() ^ 1<<63; {
		case n == 0: // no whole number of 2^53 or more
			v = floatValue(f)
		case f < 0:
			v = intValue(int64(n))
		default:
			v = uintValue(n)
		}
	default:
		v.n = int64(number() ^ 1<<63)
	}
	return v, key
}
