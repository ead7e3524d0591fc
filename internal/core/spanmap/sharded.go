package spanmap

import (
	"runtime"
	"sync"
)

// A Sharded is a map for concurrent use: several maps with a lock each. It has
// only as many maps as the goroutines that run at a time need, because few maps
// stay in the processor's cache.
type Sharded[V any] struct {
	shards []Shard[V]
	most   int // keys in a shard
}

// A Shard is the part of a [Sharded] that is locked.
type Shard[V any] struct {
	mu sync.Mutex

	Map[V]

	_ [24]byte // a cache line each
}

const maxShards = 64

// NewSharded returns a map that holds so many keys, more or less.
func NewSharded[V any](most int) *Sharded[V] {
	n := 4
	for n < 4*runtime.GOMAXPROCS(0) && n < maxShards {
		n *= 2
	}
	return &Sharded[V]{make([]Shard[V], n), most / n}
}

// Lock locks and returns the shard for the key.
func (s *Sharded[V]) Lock(k *Key) *Shard[V] {
	return s.LockAt(int(k[16]^k[23]) & (len(s.shards) - 1))
}

// Unlock unlocks the shard.
func (m *Shard[V]) Unlock() { m.mu.Unlock() }

// Set sets the value of a key. If there is no room, it removes another key.
func (s *Sharded[V]) Set(k *Key, v *V) {
	m := s.Lock(k)
	if m.used >= s.most {
		m.DeleteNear(k)
	}
	at, _ := m.Put(k)
	*at = *v
	m.Unlock()
}

// Delete removes a key and returns its value, if it was there.
func (s *Sharded[V]) Delete(k *Key) (value V, known bool) {
	m := s.Lock(k)
	value, known = m.Delete(k)
	m.Unlock()
	return value, known
}

// Shards returns how many shards there are.
func (s *Sharded[V]) Shards() int { return len(s.shards) }

// LockAt returns a shard, locked.
func (s *Sharded[V]) LockAt(i int) *Shard[V] {
	m := &s.shards[i]
	m.mu.Lock()
	return m
}

// Len returns the number of keys.
func (s *Sharded[V]) Len() (n int) {
	for i := range s.shards {
		m := s.LockAt(i)
		n += m.used
		m.Unlock()
	}
	return n
}

// Clear forgets all, and the room it took.
func (s *Sharded[V]) Clear() {
	for i := range s.shards {
		m := s.LockAt(i)
		m.Map = Map[V]{}
		m.Unlock()
	}
}
