package placer

import (
	"time"

	"github.com/entrace-go/entrace/internal/journal"
	"github.com/entrace-go/entrace/internal/record"
	"github.com/entrace-go/entrace/internal/spanmap"
)

// The numbers of open spans and of recently ended spans that a Placer remembers, so that it
// can place records that refer to them.
const (
	maxOpenSpans  = 1 << 18
	maxEndedSpans = 1 << 16
)

// A spanTable maps spans to their entries.
type spanTable struct {
	ids   spanmap.Map[span]
	open  int
	ended []record.Ref // a ring buffer of ended spans, which may be forgotten; the oldest is at next
	next  int
	lost  bool // an open span may have been forgotten
}

type span struct {
	off      int64 // of its entry in the file
	parent   [8]byte
	id       uint32
	size     uint32 // of its entry
	resource uint16
	ended    bool
}

// get returns the span ref, nil if it is not known. It is valid until the table changes.
func (t *spanTable) get(ref *record.Ref) *span { return t.ids.Get((*spanmap.Key)(ref)) }

func (t *spanTable) put(ref *record.Ref, s span) {
	at, known := t.ids.Put((*spanmap.Key)(ref))
	wasEnded := at.ended
	if known && !wasEnded {
		t.open--
	}
	if !s.ended && t.open >= maxOpenSpans {
		s.ended, t.lost = true, true // forget it sooner rather than grow for ever
	}
	*at = s
	if !s.ended {
		t.open++
		return
	}
	if !known || !wasEnded {
		t.retire(ref)
	}
}

// end notes that a span has ended.
func (t *spanTable) end(ref *record.Ref) {
	if s := t.get(ref); s != nil && !s.ended {
		s.ended = true
		t.open--
		t.retire(ref)
	}
}

func (t *spanTable) retire(ref *record.Ref) {
	if len(t.ended) < maxEndedSpans {
		t.ended = append(t.ended, *ref)
		return
	}
	oldest := &t.ended[t.next]
	if s := t.get(oldest); s != nil && s.ended {
		t.ids.Delete((*spanmap.Key)(oldest))
	}
	*oldest = *ref
	t.next = (t.next + 1) % maxEndedSpans
}

// forgetEnded forgets the spans that may be forgotten.
func (t *spanTable) forgetEnded() {
	var left spanTable
	for key, s := range t.ids.All() {
		if ref := record.Ref(key); !s.ended {
			left.put(&ref, s)
		}
	}
	left.lost = t.lost
	*t = left
}

// A pendingSpan came before its local parent.
type pendingSpan struct {
	ref, parent record.Ref
	entry       journal.Entry // a copy
	entries     int
	since       time.Time
	parked      *journal.Segment
	among       int // its index in byParent[parent]
	prev, next  *pendingSpan
}

// pendingSpans are bounded in number and bytes by their Placer.
type pendingSpans struct {
	bySpan   map[record.Ref]*pendingSpan
	byParent map[record.Ref][]*pendingSpan
	oldest   *pendingSpan // a list in the order in which they came
	newest   *pendingSpan
	spans    int
	entries  int
	bytes    int
}

func (p *pendingSpans) add(s *pendingSpan) {
	if p.bySpan == nil {
		p.bySpan = make(map[record.Ref]*pendingSpan)
		p.byParent = make(map[record.Ref][]*pendingSpan)
	}
	p.bySpan[s.ref] = s
	s.among = len(p.byParent[s.parent])
	p.byParent[s.parent] = append(p.byParent[s.parent], s)
	if s.prev = p.newest; s.prev != nil {
		s.prev.next = s
	} else {
		p.oldest = s
	}
	p.newest = s
	p.spans++
	p.entries += s.entries
	p.bytes += len(s.entry.Data)
}

// remove removes s, except from byParent.
func (p *pendingSpans) remove(s *pendingSpan) {
	if p.bySpan[s.ref] == s {
		delete(p.bySpan, s.ref)
	}
	if s.prev != nil {
		s.prev.next = s.next
	} else {
		p.oldest = s.next
	}
	if s.next != nil {
		s.next.prev = s.prev
	} else {
		p.newest = s.prev
	}
	s.prev, s.next = nil, nil
	p.spans--
	p.entries -= s.entries
	p.bytes -= len(s.entry.Data)
}

// children removes and returns the spans whose parent is ref.
func (p *pendingSpans) children(ref record.Ref) []*pendingSpan {
	list := p.byParent[ref]
	delete(p.byParent, ref)
	for _, s := range list {
		p.remove(s)
	}
	return list
}

// first removes and returns a span whose parent is not pending: the topmost pending ancestor
// of the oldest span.
func (p *pendingSpans) first() *pendingSpan {
	s := p.oldest
	if s == nil {
		return nil
	}
	for range p.spans { // of spans that need each other in a ring any one is topmost
		up := p.bySpan[s.parent]
		if up == nil || up == s {
			break
		}
		s = up
	}
	p.remove(s)
	list := p.byParent[s.parent]
	last := len(list) - 1
	list[last].among = s.among
	list[s.among], list[last] = list[last], nil
	if p.byParent[s.parent] = list[:last]; last == 0 {
		delete(p.byParent, s.parent)
	}
	return s
}

// drop forgets a span whose entry is not written.
func (t *spanTable) drop(ref *record.Ref, id uint32) {
	if s := t.get(ref); s != nil && s.id == id {
		if !s.ended {
			t.open--
		}
		t.ids.Delete((*spanmap.Key)(ref))
	}
}
