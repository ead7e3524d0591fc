package placer

import (
	"github.com/entrace-go/entrace/internal/core/record"
	"github.com/entrace-go/entrace/internal/core/spanmap"
)

// A Placer remembers this many open spans and recently ended spans, to place records that refer to them.
const (
	maxOpenSpans  = 1 << 18
	maxEndedSpans = 1 << 16
)

// A spanTable maps spans to their entries.
type spanTable struct {
	open spanmap.Map[span]
	// ended has ended spans, by the hashes of their refs to save memory. The oldest of them are forgotten.
	ended map[uint64]endedSpan
	ring  []uint64 // hashes of ended spans; the oldest is ring[next]
	next  int
	found span // the ended span that get returned last
	lost  bool // the table was full, so an open span may have been forgotten
}

type span struct {
	off      int64 // offset of the span's entry in the file
	parent   [8]byte
	id       uint32
	size     uint32 // size of the span's entry
	resource uint16
	ended    bool
}

type endedSpan struct {
	id       uint32
	resource uint16
}

func hashOf(ref *record.Ref) uint64 { return spanmap.HashKey((*spanmap.Key)(ref)) }

// get returns the span ref, or nil if the table does not have it. The result is valid until the table changes or
// get is called again. The caller must not change it.
func (t *spanTable) get(ref *record.Ref) *span {
	if s := t.open.Get((*spanmap.Key)(ref)); s != nil {
		return s
	}
	if len(t.ended) == 0 {
		return nil
	}
	s, ok := t.ended[hashOf(ref)]
	if !ok {
		return nil
	}
	t.found = span{id: s.id, resource: s.resource, ended: true}
	return &t.found
}

func (t *spanTable) put(ref *record.Ref, s *span) {
	if !s.ended && t.open.Len() < maxOpenSpans {
		at, _ := t.open.Put((*spanmap.Key)(ref))
		*at = *s
		return
	}
	t.lost = t.lost || !s.ended // treat s as ended, so that the table does not grow without bound
	t.open.Delete((*spanmap.Key)(ref))
	t.retire(ref, s)
}

// end moves the span ref from the open spans to the ended spans.
func (t *spanTable) end(ref *record.Ref) {
	if s, ok := t.open.Delete((*spanmap.Key)(ref)); ok {
		t.retire(ref, &s)
	}
}

func (t *spanTable) retire(ref *record.Ref, s *span) {
	if t.ended == nil {
		t.ended = make(map[uint64]endedSpan)
	}
	hash, n := hashOf(ref), len(t.ended)
	t.ended[hash] = (endedSpan{s.id, s.resource})
	if len(t.ended) == n {
		return // the hash is already in ring
	}
	if len(t.ring) < maxEndedSpans {
		t.ring = append(t.ring, hash)
		return
	}
	delete(t.ended, t.ring[t.next])
	t.ring[t.next] = hash
	t.next = (t.next + 1) % maxEndedSpans
}

// drop forgets the span ref if its entry is id. It is for an entry that will not be written.
func (t *spanTable) drop(ref *record.Ref, id uint32) {
	if s := t.get(ref); s != nil && s.id == id {
		t.open.Delete((*spanmap.Key)(ref))
		delete(t.ended, hashOf(ref))
	}
}

// renumber replaces the ids and offsets of all spans. newID returns the new id of an entry, and whether the
// entry still exists. The map offsets has new offsets by new id. renumber drops spans whose entries are lost.
// For each open span among them, it calls the function forgot.
func (t *spanTable) renumber(newID func(uint32) (uint32, bool), offsets map[uint32]int64, forgot func()) {
	open := t.open
	t.open = spanmap.Map[span]{}
	for key, s := range open.All() {
		id, ok := newID(s.id)
		if !ok {
			forgot()
			continue
		}
		s.id = id
		if off, staged := offsets[id]; staged {
			s.off = off
		}
		t.put((*record.Ref)(&key), &s)
	}
	for hash, s := range t.ended {
		if id, ok := newID(s.id); ok {
			t.ended[hash] = endedSpan{id, s.resource}
		} else {
			delete(t.ended, hash)
		}
	}
}
