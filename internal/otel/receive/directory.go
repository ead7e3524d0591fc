package receive

import (
	"math"
	"sync"

	"github.com/entrace-go/entrace/internal/core/spanmap"
)

// A directory records to which file recent spans went, so that no span waits for a parent that is in another file.
// It is safe for concurrent use.
type directory struct {
	locks [64]sync.Mutex // each guards a part of places
	// places is indexed by the hash of a span. A span replaces an earlier span with the same index.
	places [1 << 18]place

	mu sync.Mutex
	// found has, for each file, spans for which the file waits, but which went to other files.
	found map[uint32][]spanmap.Key
}

// A place says to which file a span went. If the span was not received yet, file and other are the files in which
// children of the span wait.
type place struct {
	hash  uint64
	file  uint32
	other uint32 // a second file in which children wait, or 0; or here
}

// here is the value of place.other if the span was received.
const here = math.MaxUint32

// maxFound is the maximum number of spans in found for a file. Children of further spans wait as long as their
// recorder lets them.
const maxFound = 1 << 12

func newDirectory() *directory { return &directory{found: make(map[uint32][]spanmap.Key)} }

// swap calls fn with the place for a span, and the hash of the span. If p.hash is different, the place belongs to
// another span.
func (d *directory) swap(k *spanmap.Key, fn func(p *place, hash uint64)) {
	hash := spanmap.HashKey(k)
	at := hash % uint64(len(d.places))
	mu := &d.locks[at%uint64(len(d.locks))]
	mu.Lock()
	defer mu.Unlock()
	fn(&d.places[at], hash)
}

// came records that a span was received and went to file.
func (d *directory) came(k *spanmap.Key, file uint32) {
	var was place
	d.swap(k, func(p *place, hash uint64) {
		if p.hash == hash && p.other != here {
			was = *p
		}
		*p = place{hash, file, here}
	})
	for _, waits := range [...]uint32{was.file, was.other} {
		if waits == 0 || waits == file {
			continue
		}
		d.mu.Lock()
		if list, ok := d.found[waits]; ok && len(list) < maxFound {
			d.found[waits] = append(list, *k)
		}
		d.mu.Unlock()
	}
}

// elsewhere reports whether a span is in a file other than file. If the span was not received yet, elsewhere
// records that file waits for it.
func (d *directory) elsewhere(k *spanmap.Key, file uint32) (yes bool) {
	d.swap(k, func(p *place, hash uint64) {
		switch {
		case p.hash != hash:
			*p = place{hash: hash, file: file}
		case p.other == here:
			yes = p.file != file
		case p.other == 0 && p.file != file:
			p.other = file // a third file is not recorded: children in that file wait as long as the recorder lets them
		}
	})
	return yes
}

// popWaits returns and forgets the spans in other files for which file waits.
func (d *directory) popWaits(file uint32) []spanmap.Key {
	d.mu.Lock()
	defer d.mu.Unlock()
	found := d.found[file]
	d.found[file] = nil
	return found
}

// forget removes a finished file.
func (d *directory) forget(file uint32) {
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.found, file)
}
