package query

import (
	endian "encoding/binary"
	"hash/maphash"
	"math"
	"slices"
	"strings"

	"github.com/entrace-go/entrace/internal/read/columns"
)

const (
	groupChunk = 1 << 10 // the number of groups whose accumulators are allocated together
	keptChunks = columns.BlockRows/groupChunk + 1
	keyChunk   = 1 << 16 // the number of bytes of keys that are allocated together
)

// A groups is a hash table that maps keys from appendKey to the accumulators of groups. It consists of a few large
// allocations, so that a million groups need little memory and little garbage collection.
type groups struct {
	width int // the number of accumulators of a group
	seed  maphash.Seed
	// slots is indexed by hash. The upper half of a slot is the hash, the lower half the number of the group plus 1.
	// A free slot is 0.
	slots []uint64
	keys  []string // the key of each group
	text  strings.Builder
	accs  [][]accumulator
	bytes []byte // a buffer for a key to look up
}

func newGroups(width int) *groups {
	return &groups{width: width, seed: maphash.MakeSeed(), slots: make([]uint64, 2*groupChunk)}
}

// acc returns accumulator i of group n.
func (g *groups) acc(n, i int) *accumulator {
	return &g.accs[uint(n)/groupChunk][int(uint(n)%groupChunk)*g.width+i] // unsigned, so that no division is necessary
}

// slot returns the slot of the group with the given key and hash. If there is no such group, it
// returns a free slot for it.
func (g *groups) slot(hash uint32, key []byte) *uint64 {
	mask := uint32(len(g.slots) - 1)
	for at := hash; ; at++ {
		s := &g.slots[at&mask]
		if *s == 0 || uint32(*s>>32) == hash && g.keys[uint32(*s)-1] == string(key) {
			return s
		}
	}
}

// of returns the number of the group with the given key. It adds the group if there is none.
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
		g.text.Reset() // earlier keys keep their memory
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

// add adds the values of the row of e to the group with the given key.
func (g *groups) add(e *env, keep []keeps, key []byte) {
	n := g.of(key)
	for i := range keep {
		g.acc(n, i).add(&keep[i], keep[i].of(e))
	}
}

// clear removes all groups. It retains some memory for new groups.
func (g *groups) clear() {
	clear(g.slots)
	clear(g.keys)
	g.keys = g.keys[:0]
	g.text.Reset()
	g.accs = g.accs[:min(keptChunks, len(g.accs))]
	for _, chunk := range g.accs {
		clear(chunk)
	}
}

// merge adds the groups of another goroutine. It stops and returns false if there are more groups
// than limit.
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

// sorted returns the numbers of the groups, sorted by key.
func (g *groups) sorted() []int {
	list := make([]int, len(g.keys))
	for i := range list {
		list[i] = i
	}
	slices.SortFunc(list, func(a, b int) int { return strings.Compare(g.keys[a], g.keys[b]) })
	return list
}

// appendKey appends a key for a value. Different values have different keys, and keys sort in the
// same order as the values. Equal numbers have equal keys.
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
	case kindInt, kindUint, kindFloat: // equal numbers of different kinds have the same key
		f, _ := v.number()
		bits := math.Float64bits(f)
		if bits>>63 != 0 {
			bits = ^bits
		} else {
			bits |= 1 << 63
		}
		b = endian.BigEndian.AppendUint64(append(b, byte(kindFloat)), bits)
		if isSmall(f) {
			return b // no other number has the same float
		}
		if kind == kindFloat {
			whole = 0
		}
	default:
		b = append(b, byte(kind))
	}
	return endian.BigEndian.AppendUint64(b, uint64(whole)^1<<63)
}

// isSmall reports whether f is a whole number and no other whole number rounds to f.
func isSmall(f float64) bool { return f == math.Trunc(f) && math.Abs(f) < 1<<53 }

// cutKey splits a key into its first value and the key of the other values.
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
		case n == 0: // f was a float, not a whole number
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
