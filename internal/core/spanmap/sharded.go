package spanmap

import (
	"runtime"
	"sync"
)

// A Sharded is a map for concurrent use. It consists of several maps, each with a lock. The number of maps grows
// with GOMAXPROCS, up to maxShards, because more maps would not fit into the processor's cache.
type Sharded[V any] struct {
	shards []Shard[V]
	most   int // the largest number of keys in a shard
}

// A Shard is one of the maps of a [Sharded], with its lock.
type Shard[V any] struct {
	mu sync.Mutex

	Map[V]

	_ [24]byte // gives each Shard a cache line of its own
}

const maxShards = 64

// NewSharded returns a map that holds at most about most keys.
func NewSharded[V any](most int) *Sharded[V] {
	n := 4
	for n < 4*runtime.GOMAXPROCS(0) && n < maxShards {
		n *= 2
	}
	return &Sharded[V]{make([]Shard[V], n), most / n}
}

// Lock locks the shard for the key and returns the shard.
func (s *Sharded[V]) Lock(k *Key) *Shard[V] {
	return s.LockAt(int(k[16]^k[23]) & (len(s.shards) - 1))
}

// Unlock unlocks the shard.
func (m *Shard[V]) Unlock() { m.mu.Unlock() }

// Set sets the value of a key. If the shard is full, Set first removes some other key.
func (s *Sharded[V]) Set(k *Key, v *V) {
	m := s.Lock(k)
	if m.used >= s.most {
		m.DeleteNear(k)
	}
	at, _ := m.Put(k)
	*at = *v
	m.Unlock()
}

// Delete removes a key. It returns the value of the key, and whether the map had the key.
func (s *Sharded[V]) Delete(k *Key) (value V, known bool) {
	m := s.Lock(k)
	value, known = m.Delete(k)
	m.Unlock()
	return value, known
}

// Shards returns the number of shards.
func (s *Sharded[V]) Shards() int { return len(s.shards) }

// LockAt locks the shard with index i and returns the shard.
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

// Clear removes all keys and frees their memory.
func (s *Sharded[V]) Clear() {
	for i := range s.shards {
		m := s.LockAt(i)
		m.Map = Map[V]{}
		m.Unlock()
	}
}
