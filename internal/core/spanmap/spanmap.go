// Package spanmap has a map whose keys are the ids of spans. The recorder and the span processor use it several
// times for each span. It is a few times faster than Go's built-in map, because it stores keys in its slots and ids
// are random.
package spanmap

import (
	"encoding/binary"
	"hash/maphash"
	"iter"
	"math/bits"
)

// A Key is a trace id followed by a span id.
type Key = [24]byte

// A Map is a hash table with open addressing and linear probing. The zero Map is empty. It is not safe for
// concurrent use.
type Map[V any] struct {
	// Invariants: The number of slots is 0 or a power of two. More than a quarter of the slots are free. A key is
	// in its home slot, which its hash selects, or in a later slot; no slot between these two is free.
	slots []slot[V]
	used  int
}

type slot[V any] struct {
	key   Key
	taken bool
	value V
}

const minSlots = 16

// The seeds are random, so that an attacker cannot choose ids with equal hashes.
var seed0, seed1 = maphash.String(maphash.MakeSeed(), ""), maphash.String(maphash.MakeSeed(), "")

func multiply(a, b uint64) uint64 {
	hi, lo := bits.Mul64(a, b)
	return hi ^ lo
}

// Hash mixes two numbers, which an attacker may have chosen. It multiplies twice: after one multiplication,
// consecutive numbers have equal distances, and collide for some seeds.
func Hash(a, b uint64) uint64 { return multiply(multiply(a^seed0, b^seed1), 0x9e3779b97f4a7c15) }

// HashKey mixes all bytes of a key, so that ids that differ only in a few bytes do not collide.
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

// Put returns a pointer to the value of a key, and whether the map had the key. If it did not, Put
// adds the key. The pointer is valid until the map is changed.
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

// Delete removes a key. It returns the value of the key, and whether the map had the key.
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

// free frees the slot i, and moves later keys towards their home slots if the gap would separate them.
func (m *Map[V]) free(i int) {
	m.used--
	mask := len(m.slots) - 1
	for j := (i + 1) & mask; m.slots[j].taken; j = (j + 1) & mask {
		if (j-hash(&m.slots[j].key))&mask >= (j-i)&mask { // the home slot of the key at j is not after i
			m.slots[i] = m.slots[j]
			i = j
		}
	}
	m.slots[i] = slot[V]{}
}

// DeleteNear removes the first key that it finds from the home slot of k on. The map must not be empty.
func (m *Map[V]) DeleteNear(k *Key) {
	mask := len(m.slots) - 1
	i := hash(k) & mask
	for !m.slots[i].taken {
		i = (i + 1) & mask
	}
	m.free(i)
}

// Clear removes all keys. It keeps at most maxKeep slots for later use.
func (m *Map[V]) Clear() {
	if len(m.slots) > maxKeep {
		m.slots = nil
	}
	clear(m.slots)
	m.used = 0
}

const maxKeep = 1 << 12

// All returns the keys and values in no particular order. The map must not be changed
// during the iteration.
func (m *Map[V]) All() iter.Seq2[Key, V] {
	return func(yield func(Key, V) bool) {
		for i := range m.slots {
			if s := &m.slots[i]; s.taken && !yield(s.key, s.value) {
				return
			}
		}
	}
}
