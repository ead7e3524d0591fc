package format

import (
	"time"
	"unsafe"

	"github.com/entrace-go/entrace/internal/spanmap"
)

// A SpanRef names a span: its trace id and its span id. The zero SpanRef names
// none.
type SpanRef struct {
	TraceID [16]byte
	SpanID  [8]byte
}

// IsValid reports whether both ids are set.
func (s SpanRef) IsValid() bool { return s.TraceID != [16]byte{} && s.SpanID != [8]byte{} }

const hexDigits = "0123456789abcdef"

var hexPairs = func() (p [256][2]byte) {
	for i := range p {
		p[i] = [2]byte{hexDigits[i>>4], hexDigits[i&15]}
	}
	return p
}()

// AppendHex appends id as attributes hold it: two lower-case hex digits a byte.
func AppendHex(b, id []byte) []byte {
	for _, c := range id {
		b = append(b, hexPairs[c][0], hexPairs[c][1])
	}
	return b
}

// How many spans a recorder remembers beside the written file, so that what
// belongs to them finds them: those that are open, and those that ended last.
const (
	maxOpenSpans  = 1 << 18
	maxEndedSpans = 1 << 16
)

// A spanTable knows where the entries of spans are.
type spanTable struct {
	ids   spanmap.Map[spanSlot]
	open  int
	ended []SpanRef // a ring of those that may be forgotten, oldest at next
	next  int
}

type spanSlot struct {
	off      int64 // of its entry in the file
	parent   [8]byte
	id       uint32
	resource uint32
	ended    bool
}

// key returns s as a key.
func (s *SpanRef) key() *spanmap.Key { return (*spanmap.Key)(unsafe.Pointer(s)) }

// get returns where the entry of span ref is, nil if it is not known.
func (t *spanTable) get(ref *SpanRef) *spanSlot { return t.ids.Get(ref.key()) }

// put notes where the entry of span ref is.
func (t *spanTable) put(ref SpanRef, slot spanSlot) {
	at, known := t.ids.Put(ref.key())
	wasEnded := at.ended
	if known && !wasEnded {
		t.open--
	}
	if !slot.ended && t.open >= maxOpenSpans {
		slot.ended = true // forget it sooner rather than grow for ever
	}
	*at = slot
	if !slot.ended {
		t.open++
		return
	}
	if !known || !wasEnded {
		t.retire(ref)
	}
}

// end notes that span ref has ended.
func (t *spanTable) end(ref SpanRef) {
	if s := t.get(&ref); s != nil && !s.ended {
		s.ended = true
		t.open--
		t.retire(ref)
	}
}

func (t *spanTable) retire(ref SpanRef) {
	if len(t.ended) < maxEndedSpans {
		t.ended = append(t.ended, ref)
		return
	}
	oldest := &t.ended[t.next]
	if s := t.get(oldest); s != nil && s.ended {
		t.ids.Delete(oldest.key())
	}
	*oldest = ref
	t.next = (t.next + 1) % maxEndedSpans
}

// drop forgets a span whose entry did not reach the file.
func (t *spanTable) drop(ref SpanRef, id uint32) {
	if s := t.get(&ref); s != nil && s.id == id {
		if !s.ended {
			t.open--
		}
		t.ids.Delete(ref.key())
	}
}

// A waiting span came before its local parent.
type waitingSpan struct {
	ref      SpanRef
	parent   SpanRef
	data     []byte // its record
	entries  int
	bodies   int    // size of those that are to be written
	position uint64 // in the ledger
	since    time.Time
	among    int // where it is among those that wait for the same parent
	prev     *waitingSpan
	next     *waitingSpan
}

// A waitingRoom holds the spans that wait, bounded in number and bytes.
type waitingRoom struct {
	bySpan   map[SpanRef]*waitingSpan
	byParent map[SpanRef][]*waitingSpan
	oldest   *waitingSpan // a list in the order in which they came
	newest   *waitingSpan
	spans    int
	entries  int
	bytes    int
}

func (w *waitingRoom) add(s *waitingSpan) {
	if w.bySpan == nil {
		w.bySpan = make(map[SpanRef]*waitingSpan)
		w.byParent = make(map[SpanRef][]*waitingSpan)
	}
	w.bySpan[s.ref] = s
	s.among = len(w.byParent[s.parent])
	w.byParent[s.parent] = append(w.byParent[s.parent], s)
	if s.prev = w.newest; s.prev != nil {
		s.prev.next = s
	} else {
		w.oldest = s
	}
	w.newest = s
	w.spans++
	w.entries += s.entries
	w.bytes += len(s.data)
}

// remove takes s out, but for its place in byParent.
func (w *waitingRoom) remove(s *waitingSpan) {
	if w.bySpan[s.ref] == s {
		delete(w.bySpan, s.ref)
	}
	if s.prev != nil {
		s.prev.next = s.next
	} else {
		w.oldest = s.next
	}
	if s.next != nil {
		s.next.prev = s.prev
	} else {
		w.newest = s.prev
	}
	s.prev, s.next = nil, nil
	w.spans--
	w.entries -= s.entries
	w.bytes -= len(s.data)
}

// children takes out those that wait for ref.
func (w *waitingRoom) children(ref SpanRef) []*waitingSpan {
	kids := w.byParent[ref]
	delete(w.byParent, ref)
	for _, s := range kids {
		w.remove(s)
	}
	return kids
}

// first takes out a span that waits for one that does not wait itself, so that
// it must be written below something else: the top of what the oldest waits for.
func (w *waitingRoom) first() *waitingSpan {
	s := w.oldest
	if s == nil {
		return nil
	}
	for range w.spans { // spans that wait for each other in a ring are all tops
		up := w.bySpan[s.parent]
		if up == nil || up == s {
			break
		}
		s = up
	}
	w.remove(s)
	kids := w.byParent[s.parent]
	last := len(kids) - 1
	kids[last].among = s.among
	kids[s.among], kids[last] = kids[last], nil
	if w.byParent[s.parent] = kids[:last]; last == 0 {
		delete(w.byParent, s.parent)
	}
	return s
}
