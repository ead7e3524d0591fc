package placer

import (
	"time"

	"github.com/entrace-go/entrace/internal/journal"
	"github.com/entrace-go/entrace/internal/record"
	"github.com/entrace-go/entrace/internal/spanmap"
)

// How many spans a Placer remembers beside the file, so that what belongs to them finds
// them: those that are open, and those that ended last.
const (
	maxOpenSpans  = 1 << 18
	maxEndedSpans = 1 << 16
)

// A spanTable knows the entries of spans.
type spanTable struct {
	ids   spanmap.Map[span]
	open  int
	ended []record.Ref // a ring of those that may be forgotten, the oldest at next
	next  int
	lost  bool // one that is open may have been forgotten
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

// A pendingSpan came before its local parent.
type pendingSpan struct {
	ref, parent record.Ref
	entry       journal.Entry // a copy
	entries     int
	since       time.Time
	parked      *journal.Segment
	among       int // where it is among those that need the same parent
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

// children removes and returns those that need ref.
func (p *pendingSpans) children(ref record.Ref) []*pendingSpan {
	list := p.byParent[ref]
	delete(p.byParent, ref)
	for _, s := range list {
		p.remove(s)
	}
	return list
}

// first removes and returns a span whose parent is not pending itself: the topmost of
// those that the oldest depends on.
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
