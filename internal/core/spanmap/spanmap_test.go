package spanmap

import (
	"encoding/binary"
	"math/rand/v2"
	"testing"

	"github.com/entrace-go/entrace/internal/testkit/expect"
)

func key(n uint64) (k Key) {
	binary.BigEndian.PutUint64(k[16:], n)
	return k
}

// TestMap compares a Map with a built-in map after random operations, with few keys and with many.
func TestMap(t *testing.T) {
	for _, keys := range []uint64{3, 100, 5000} {
		var m Map[int]
		want := make(map[Key]int)
		for i := range 50000 {
			k := key(rand.Uint64N(keys))
			old, has := want[k]
			switch rand.IntN(4) {
			case 0, 1:
				v, known := m.Put(&k)
				if known != has || known && *v != old || !known && *v != 0 {
					t.Fatalf("Put: %d %t, want %d %t", *v, known, old, has)
				}
				*v, want[k] = i, i
			case 2:
				if v, known := m.Delete(&k); known != has || v != old {
					t.Fatalf("Delete: %d %t, want %d %t", v, known, old, has)
				}
				delete(want, k)
			case 3:
				if v := m.Get(&k); (v != nil) != has || has && *v != old {
					t.Fatalf("Get: %v, want %d %t", v, old, has)
				}
			}
			expect.MustEqual(t, m.Len(), len(want), "Len")
		}
		n := 0
		for k, v := range m.All() {
			n++
			expect.Equal(t, v, want[k], "All has %x", k)
		}
		expect.Equal(t, n, len(want), "All has")
		k := key(1)
		for m.Len() > 0 {
			m.DeleteNear(&k)
		}
		for i := range m.slots {
			if m.slots[i].taken {
				t.Error("a slot of an empty map is taken")
			}
		}
	}
}

func BenchmarkMap(b *testing.B) {
	const live = 1 << 12
	ks := make([]Key, 1<<14)
	for i := range ks {
		ks[i] = key(rand.Uint64())
	}
	b.Run("spanmap", func(b *testing.B) {
		var m Map[[4]uint64]
		i := 0
		for b.Loop() {
			v, _ := m.Put(&ks[i%len(ks)])
			v[0] = uint64(i)
			m.Delete(&ks[(i+len(ks)-live)%len(ks)])
			i++
		}
	})
	b.Run("map", func(b *testing.B) {
		m := make(map[Key][4]uint64)
		i := 0
		for b.Loop() {
			m[ks[i%len(ks)]] = [4]uint64{uint64(i)}
			delete(m, ks[(i+len(ks)-live)%len(ks)])
			i++
		}
	})
}

// TestSharded adds more keys than the map may hold, and deletes none.
func TestSharded(t *testing.T) {
	const most = 1 << 12
	s := NewSharded[int](most)
	var k Key
	for i := range 4 * most {
		k = key(rand.Uint64())
		s.Set(&k, &i)
		if i == most/2 && s.Len() != i+1 {
			t.Errorf("%d of %d are there", s.Len(), i+1)
		}
	}
	if n := s.Len(); n > most || n < most/2 {
		t.Errorf("there are %d, and the bound is %d", n, most)
	}
	for i := range s.Shards() {
		m := s.LockAt(i)
		if n := m.Len(); n > most/s.Shards() {
			t.Errorf("shard %d has %d", i, n)
		}
		m.Unlock()
	}
	if v, ok := s.Delete(&k); !ok || v != 4*most-1 {
		t.Errorf("the last one is %d %t", v, ok)
	}
	if _, ok := s.Delete(&k); ok {
		t.Error("the last one is there again")
	}
	s.Clear()
	expect.Equal(t, s.Len(), 0, "keys left")
}

// TestHashTakesAllBytes checks that ids which differ in only one byte do not collide, whatever the seeds are. A
// sender that counts its ids makes such ids.
func TestHashTakesAllBytes(t *testing.T) {
	defer func(a, b uint64) { seed0, seed1 = a, b }(seed0, seed1)
	for range 1000 {
		for at := range len(Key{}) {
			homes := make(map[int]bool)
			for c := range 256 {
				var k Key
				k[at] = byte(c)
				homes[hash(&k)%(1<<18)] = true
			}
			if len(homes) < 250 {
				t.Errorf("with seeds %#x and %#x, 256 keys that differ in byte %d have %d homes", seed0, seed1, at, len(homes))
			}
		}
		seed0, seed1 = rand.Uint64(), rand.Uint64()
	}
}
