// Package spanmap is a map from the ids of spans, which both the recorder and the
// span processor ask several times for each span: it is a few times faster there
// than a map of the language, since keys lie in place and ids are random.
package spanmap

import (
	"encoding/binary"
	"hash/maphash"
	"iter"
	"math/bits"
)

// A Key is a trace id and behind it a span id.
type Key = [24]byte

// A Map is an open hash table with linear probing. The zero Map is empty. It is
// not safe for concurrent use.
type Map[V any] struct {
	// Invariants: the number of slots is a power of two, or 0, and more than a
	// quarter of them are free. A key is at its home or behind it, with no free
	// slot between.
	slots []slot[V]
	used  int
}

type slot[V any] struct {
	key   Key
	taken bool
	value V
}

const minSlots = 16

// The seeds keep those who choose ids from choosing where they are.
var seed0, seed1 = maphash.String(maphash.MakeSeed(), ""), maphash.String(maphash.MakeSeed(), "")

func multiply(a, b uint64) uint64 {
	hi, lo := bits.Mul64(a, b)
	return hi ^ lo
}

// Hash mixes two numbers, which may be chosen to be alike. One multiplication leaves numbers that count up at equal
// distances, which meet for some seeds, so that another follows.
func Hash(a, b uint64) uint64 { return multiply(multiply(a^seed0, b^seed1), 0x9e3779b97f4a7c15) }

// HashKey mixes all of a key: ids that differ in a few bytes alone must not meet.
func HashKey(k *Key) uint64 {
	trace := multiply(binary.LittleEndian.Uint64(k[:])^seed0, binary.LittleEndian.Uint64(k[8:])^seed1)
	return Hash(trace, binary.LittleEndian.Uint64(k[16:]))
}

func hash(k *Key) int { return int(uint32(HashKey(k))) }

// Len returns the number of keys.
func (m *Map[V]) Len() int { return m.used }

// Get returns the value of a key, or nil. The pointer is valid until the map is changed.
func (m *Map[V]) Get(k *Key) *V {
	if m.used == 0 {
		return nil
	}
	mask := len(m.slots) - 1
	for i := hash(k) & mask; m.slots[i].taken; i = (i + 1) & mask {
		if m.slots[i].key == *k {
			return &m.slots[i].value
		}
	}
	return nil
}

// Put returns a pointer to the value of a key, which it adds if the key is not known. The
// pointer is valid until the map is changed.
func (m *Map[V]) Put(k *Key) (value *V, known bool) {
	if m.used*4 >= len(m.slots)*3 {
		m.grow()
	}
	mask := len(m.slots) - 1
	i := hash(k) & mask
	for ; m.slots[i].taken; i = (i + 1) & mask {
		if m.slots[i].key == *k {
			return &m.slots[i].value, true
		}
	}
	s := &m.slots[i]
	s.key, s.taken = *k, true
	m.used++
	return &s.value, false
}

func (m *Map[V]) grow() {
	old := m.slots
	m.slots, m.used = make([]slot[V], max(2*len(old), minSlots)), 0
	for i := range old {
		if s := &old[i]; s.taken {
			v, _ := m.Put(&s.key)
			*v = s.value
		}
	}
}

// Delete removes a key and returns its value, if it was there.
func (m *Map[V]) Delete(k *Key) (value V, known bool) {
	if m.used == 0 {
		return value, false
	}
	mask := len(m.slots) - 1
	for i := hash(k) & mask; m.slots[i].taken; i = (i + 1) & mask {
		if m.slots[i].key == *k {
			value = m.slots[i].value
			m.free(i)
			return value, true
		}
	}
	return value, false
}

// free frees a slot, and moves those up that were pushed behind it.
func (m *Map[V]) free(i int) {
	m.used--
	mask := len(m.slots) - 1
	for j := (i + 1) & mask; m.slots[j].taken; j = (j + 1) & mask {
		if (j-hash(&m.slots[j].key))&mask >= (j-i)&mask { // its home is not between i and j
			m.slots[i] = m.slots[j]
			i = j
		}
	}
	m.slots[i] = slot[V]{}
}

// DeleteNear removes some key, as near to k as can be. The map must not be empty.
func (m *Map[V]) DeleteNear(k *Key) {
	mask := len(m.slots) - 1
	i := hash(k) & mask
	for !m.slots[i].taken {
		i = (i + 1) & mask
	}
	m.free(i)
}

// Clear removes all keys, and keeps the room they took unless it is much.
func (m *Map[V]) Clear() {
	if len(m.slots) > maxKeep {
		m.slots = nil
	}
	clear(m.slots)
	m.used = 0
}

const maxKeep = 1 << 12

// All returns the keys and values, in no order. The map must not be changed
// meanwhile.
func (m *Map[V]) All() iter.Seq2[Key, V] {
	return func(yield func(Key, V) bool) {
		for i := range m.slots {
			if s := &m.slots[i]; s.taken && !yield(s.key, s.value) {
				return
			}
		}
	}
}
