package receive

import (
	"sync"

	"github.com/entrace-go/entrace/internal/spanmap"
)

// A directory knows which file the latest spans went to, so that no span waits for a parent that is in another
// file. It is safe for concurrent use.
type directory struct {
	locks [64]sync.Mutex // each guards a part of places
	// places are found by hashes. A later span takes the place of an earlier one.
	places [1 << 18]place

	mu sync.Mutex
	// found has the spans that came to other files, by the file that waits for them.
	found map[uint32][]spanmap.Key
}

// A place says where a span is.
type place struct {
	hash uint64
	file uint32
	// awaited says that the span has not come, and that a span of the file waits for it.
	awaited bool
}

// maxFound bounds what is kept for a file. Behind it, spans wait as long as their recorder lets them.
const maxFound = 1 << 12

// swap calls fn with the place of a span, which has another span if its hash is another one.
func (d *directory) swap(k *spanmap.Key, fn func(p *place, hash uint64)) {
	hash := spanmap.HashKey(k)
	at := hash % uint64(len(d.places))
	mu := &d.locks[at%uint64(len(d.locks))]
	mu.Lock()
	defer mu.Unlock()
	fn(&d.places[at], hash)
}

// came notes that a span comes to a file.
func (d *directory) came(k *spanmap.Key, file uint32) {
	var was place
	var same bool
	d.swap(k, func(p *place, hash uint64) {
		was, same = *p, p.hash == hash
		*p = place{hash: hash, file: file}
	})
	if !same || !was.awaited || was.file == file {
		return
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if len(d.found[was.file]) < maxFound {
		d.found[was.file] = append(d.found[was.file], *k)
	}
}

// elsewhere reports whether a span came to another file. If the span has not come at all, the directory notes
// that the file waits for it.
func (d *directory) elsewhere(k *spanmap.Key, file uint32) (yes bool) {
	d.swap(k, func(p *place, hash uint64) {
		if p.hash == hash && !p.awaited {
			yes = p.file != file
			return
		}
		*p = place{hash: hash, file: file, awaited: true}
	})
	return yes
}

// take returns the spans in other files that a file waited for, and forgets them.
func (d *directory) take(file uint32) []spanmap.Key {
	d.mu.Lock()
	defer d.mu.Unlock()
	found := d.found[file]
	delete(d.found, file)
	return found
}
