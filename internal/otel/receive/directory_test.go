package receive

import (
	"encoding/binary"
	"sync"
	"testing"

	"github.com/entrace-go/entrace/internal/core/spanmap"
	"github.com/entrace-go/entrace/internal/testkit/expect"
)

func spanKey(n int) (k spanmap.Key) {
	binary.BigEndian.PutUint64(k[16:], uint64(n))
	return k
}

func TestDirectory(t *testing.T) {
	d := newDirectory()
	d.popWaits(7) // from now on, the directory collects spans for file 7
	own, there, late, later := spanKey(1), spanKey(2), spanKey(3), spanKey(4)
	d.came(&own, 7)
	d.came(&there, 8)
	if d.elsewhere(&own, 7) || !d.elsewhere(&there, 7) || d.elsewhere(&late, 7) || d.elsewhere(&later, 7) {
		t.Error("only one span came to another file")
	}
	d.came(&later, 7)
	if list := d.popWaits(7); len(list) > 0 {
		t.Errorf("found are %v, and nothing came to another file since", list)
	}
	d.came(&late, 8)
	if list := d.popWaits(7); len(list) != 1 || list[0] != late {
		t.Errorf("found are %v, want %v", list, late)
	}
	if list := d.popWaits(7); len(list) > 0 || d.elsewhere(&late, 8) || !d.elsewhere(&late, 7) {
		t.Errorf("found again are %v", list)
	}
	// Two files may wait for the same span. A file that is finished gets no spans.
	d.popWaits(9)
	d.popWaits(10)
	d.forget(10)
	both, gone := spanKey(5), spanKey(6)
	for _, file := range []uint32{7, 9, 7, 9} {
		d.elsewhere(&both, file)
	}
	d.elsewhere(&gone, 10)
	d.came(&both, 8)
	d.came(&gone, 8)
	if a, b := d.popWaits(7), d.popWaits(9); len(a) != 1 || len(b) != 1 || a[0] != both || b[0] != both {
		t.Errorf("found are %v and %v, want %v for both", a, b, both)
	}
	if _, ok := d.found[10]; ok {
		t.Error("something is kept for a file that is finished")
	}
	for n := range 2 * maxFound {
		k := spanKey(1000 + n)
		d.elsewhere(&k, 7)
		d.came(&k, 8)
	}
	expect.Equal(t, len(d.popWaits(7)), maxFound, "spans kept")
}

// TestDirectoryMissesNothing asks for spans while they arrive in another file. For each span, either elsewhere or
// take must report it, and not both. A few spans may be missed, because two spans can have the same place.
func TestDirectoryMissesNothing(t *testing.T) {
	const n = 1000
	d := newDirectory()
	d.popWaits(7)
	var elsewhere [n]bool
	var wg sync.WaitGroup
	wg.Go(func() {
		for i := range n {
			k := spanKey(i)
			elsewhere[i] = d.elsewhere(&k, 7)
		}
	})
	wg.Go(func() {
		for i := range n {
			k := spanKey(i)
			d.came(&k, 8)
		}
	})
	wg.Wait()
	told := make(map[spanmap.Key]bool)
	for _, k := range d.popWaits(7) {
		told[k] = true
	}
	missed := 0
	for i := range n {
		if elsewhere[i] == told[spanKey(i)] {
			missed++
		}
	}
	if missed > 30 {
		t.Errorf("%d of %d spans were not told, or twice", missed, n)
	}
}
