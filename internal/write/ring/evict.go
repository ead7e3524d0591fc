package ring

import (
	"math"
	"sync/atomic"
	"time"

	"github.com/entrace-go/entrace/internal/core/journal"
	"github.com/entrace-go/entrace/internal/core/record"
	"github.com/entrace-go/entrace/internal/core/spanmap"
)

// A value in an openSpans map says where the start of an open span is. It is one of these constants, or the
// base of a segment plus 1: the start is then in this segment or an earlier one.
const (
	startUnknown  = 1 // somewhere in the ring
	startRetained = math.MaxUint64
)

// maxOpen bounds the number of spans in openSpans, because some spans never end. If more spans are open,
// the starts of arbitrary ones are not retained.
const maxOpen = 512 << 10

// openSpans maps each open span whose start was in the ring to the place of the start.
type openSpans struct {
	*spanmap.Sharded[uint64]
}

// started stores the place of the start of an open span. It changes nothing if the start is retained
// already.
func (o openSpans) started(r *record.Ref, start uint64) {
	s := o.Lock((*spanmap.Key)(r))
	if at := s.Get((*spanmap.Key)(r)); at != nil && *at != startRetained {
		*at = start
	}
	s.Unlock()
}

// get returns the place of the start of a span, and whether the span is open.
func (o openSpans) get(r *record.Ref) (start uint64, open bool) {
	s := o.Lock((*spanmap.Key)(r))
	if at := s.Get((*spanmap.Key)(r)); at != nil {
		start, open = *at, true
	}
	s.Unlock()
	return start, open
}

// retain marks the start of a span as retained if the span is open. It reports whether it is.
func (o openSpans) retain(r *record.Ref) bool {
	s := o.Lock((*spanmap.Key)(r))
	at := s.Get((*spanmap.Key)(r))
	if at != nil {
		*at = startRetained
	}
	s.Unlock()
	return at != nil
}

// evict is called before a segment is reused. It retains the records of the segment that are still needed.
// The caller has locked the journal.
func (g *Ring) evict(j *journal.Journal, seg *journal.Segment) {
	s := &g.state
	for _, sn := range s.snapshots {
		sn.save(seg)
	}
	kept := uint64(0)
	last := seg.Last
	switch seg.Stream() {
	case journal.StreamRetained:
		last = s.evicted.last.Load()
		if limit, retained := j.Limit(); retained <= limit/8 { // if there are more, drop roughly the oldest open spans
			kept = g.retainOpen(j, seg)
		}
	case journal.StreamSpans:
		kept = g.retainOpen(j, seg)
		s.firstSpan = seg.Base() + journal.SegmentSize
	default:
		if seg.Ends > 0 {
			g.markEnds(j, seg)
		}
	}
	entries := uint64(seg.Entries)
	s.evicted.add(last, entries-min(kept, entries))
}

// cursor returns a cursor over a segment.
func cursor(seg *journal.Segment) *journal.Cursor {
	b, err := seg.Copy(nil, seg.End())
	if err != nil {
		return journal.NewCursor(seg.Stream(), nil) // the page cannot be read, so no record can be retained
	}
	return journal.NewCursor(seg.Stream(), []journal.Part{{Base: seg.Base(), End: len(b), Read: func([]byte, int, int) ([]byte, error) { return b, nil }}})
}

// retainOpen copies the starts of open spans in seg, and also the marks in seg that are still needed. It
// returns the number of copied starts.
func (g *Ring) retainOpen(j *journal.Journal, seg *journal.Segment) (entries uint64) {
	c := cursor(seg)
	for e := c.Next(); e != nil; e = c.Next() {
		user := e.Info.User()
		kind, flags := record.Kind(user&15), uint8(user>>10)
		if flags&record.FlagRef == 0 || len(e.Data) < record.RefSize {
			continue
		}
		switch {
		case kind == record.KindMark:
			if g.beginsLater(e.Mark()) {
				g.retain(j, e)
			}
		case kind == record.KindSpan && flags&record.FlagOpen != 0 && g.open.retain((*record.Ref)(e.Data)):
			if g.retain(j, e) {
				entries += uint64(e.Info.Entries())
			}
		}
	}
	return entries
}

// markEnds stores a mark for each end of a span in seg, if the ring may still have the start. Without the
// mark, a reader would consider the span open.
func (g *Ring) markEnds(j *journal.Journal, seg *journal.Segment) {
	c := cursor(seg)
	for e := c.Next(); e != nil; e = c.Next() {
		if record.Kind(e.Info.User()&15) != record.KindEnd || len(e.Data) < record.RefSize+8 {
			continue
		}
		start := e.Mark()
		if start == 0 || start != startRetained && start != startUnknown && !g.beginsLater(start) {
			continue
		}
		var data [record.RefSize + 8]byte
		copy(data[:], e.Data[:record.RefSize])
		copy(data[record.RefSize:], e.Data[len(e.Data)-8:])
		g.retain(j, &journal.Entry{Time: e.Time, Info: record.Info(record.KindMark, 0, record.FlagRef, 0, 0), Data: data[:]})
	}
}

// beginsLater reports whether the start of a span with the place start may be in a segment that is still in
// the ring.
func (g *Ring) beginsLater(start uint64) bool {
	return start != startRetained && start > g.state.firstSpan
}

// retain appends a record to the stream of retained records. It returns false on an error.
func (g *Ring) retain(j *journal.Journal, e *journal.Entry) bool {
	before := g.state.retained.Segment()
	seg, err := g.state.retained.Append(e.Time, e.Info, e.Data)
	if err != nil {
		return false
	}
	if before != nil && before != seg {
		j.AddFilled(before)
	}
	return true
}

// evictions counts evicted entries. The lock of the journal guards list; the other fields are read without
// a lock.
type evictions struct {
	total atomic.Uint64
	last  atomic.Int64 // the latest time of an evicted entry
	list  []eviction
}

type eviction struct {
	last    int64
	entries uint64
}

// maxEvictions is the maximum length of evictions.list. It is even.
const maxEvictions = 4096

func (e *evictions) add(last int64, entries uint64) {
	last = min(last, time.Now().UnixNano()) // some records have a time in the future
	e.total.Add(entries)
	e.last.Store(max(e.last.Load(), last))
	if len(e.list) == maxEvictions { // join pairs: half the items, with less exact times
		half := e.list[:0]
		for i := 0; i+1 < maxEvictions; i += 2 {
			a, b := e.list[i], e.list[i+1]
			half = append(half, eviction{max(a.last, b.last), a.entries + b.entries})
		}
		e.list = half
	}
	e.list = append(e.list, eviction{last, entries})
}

// since returns the maximum number of evicted entries that are later than the time from.
func (e *evictions) since(from int64) (n uint64) {
	for i := range e.list {
		if e.list[i].last >= from {
			n += e.list[i].entries
		}
	}
	return n
}
