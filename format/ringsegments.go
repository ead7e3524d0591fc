package format

import (
	"fmt"
	"time"

	"github.com/entrace-go/entrace/internal/segment"
	"github.com/entrace-go/entrace/internal/spanmap"
)

// nextSegment gives s another segment. It is locked.
func (g *Ring) nextSegment(s *stripe, n int) error {
	if n > segment.MaxRecord {
		return errNoRoom
	}
	g.mu.Lock()
	if g.closed {
		g.mu.Unlock()
		return ErrClosed
	}
	if s.seg != nil {
		g.full = append(g.full, s.seg)
		s.leave()
	}
	seg, gone, err := g.segment(s.number, s.base)
	g.mu.Unlock()
	if err != nil {
		if gone {
			g.faulted(err)
		}
		return errNoRoom
	}
	s.seg = seg
	s.base += segment.Size
	if s.number == g.spans() {
		g.spanSegment.Store(spanSegment(seg))
	}
	return nil
}

// spans returns the number of the stripe of the spans.
func (g *Ring) spans() uint64 { return uint64(len(g.r.stripes) - 1) }

// spanSegment returns the number of a segment of spans. It is none of the two that
// mean something else.
func spanSegment(s *segment.Segment) uint32 {
	return uint32(s.Base()/segment.Size%(beganCarried-1)) + 1
}

// segment returns an empty segment, for which it gives up the oldest if need be,
// or an error and whether that is for pages that are gone. The lock is held.
func (g *Ring) segment(stream, base uint64) (s *segment.Segment, gone bool, err error) {
	for {
		for g.used >= g.most {
			if !g.evict() {
				return nil, false, errNoRoom
			}
		}
		s, err = g.r.pool.Take(stream, base, true)
		switch {
		case err == nil:
			g.used++
			return s, false, nil
		case s != nil || g.used == 0 || len(g.full) == 0:
			return nil, s != nil, err
		}
		g.most = max(1, g.used-1) // the disk has no room for more; one is for what is carried over
	}
}

// evict gives up the oldest segment that is full, and carries over what of it is
// needed still. It reports whether there was one. The lock is held.
func (g *Ring) evict() bool {
	if len(g.full) == 0 {
		return false
	}
	s := g.full[0]
	g.full[0] = nil
	g.full = g.full[1:]
	for _, sn := range g.snapshots {
		sn.save(s)
	}
	kept := uint64(0)
	last := s.Last
	switch s.Stream() {
	case carryStream:
		g.carried--
		last = g.evictions.last
		if g.carried <= g.most/8 { // beyond that the oldest that are open go, by and large
			kept = g.carryOver(s)
		}
	case g.spans():
		kept = g.carryOver(s)
		g.firstSpan = spanSegment(s) + 1
	default:
		if s.Ends > 0 {
			g.carryEnds(s)
		}
	}
	entries := uint64(s.Fresh.Entries)
	g.evictions.add(last, entries-min(kept, entries))
	g.r.pool.Release(s)
	g.used--
	return true
}

// carryOver writes the beginnings of spans in s that are open to another segment,
// and returns how many entries these are; and of a segment of such the marks of
// ends, as carryEnds writes them.
func (g *Ring) carryOver(s *segment.Segment) (entries uint64) {
	_ = s.Guard(func() { // of a page that is gone nothing can be carried over
		for at, end := segment.First, s.End(); at < end; {
			data, next := s.Record(at, end)
			at = next
			h, ok := headOf(data)
			switch {
			case !ok:
			case h.kind == opMark && h.resource != beganCarried && g.beginsLater(h.resource):
				g.carryRecord(data)
			case h.kind == opSpan && h.flags&(flagOpen|flagRef) == flagOpen|flagRef && g.open.carry(h.ref):
				var o record
				if o.parse(data) && g.carryRecord(data) {
					n := countBodies(o.bodies)
					entries += uint64(n)
					g.carry.Fresh.Entries += uint32(n)
				}
			}
		}
	})
	return entries
}

// carryEnds notes which spans have ended whose ends are in s: those whose beginning
// may still be there would be taken for open.
func (g *Ring) carryEnds(s *segment.Segment) {
	_ = s.Guard(func() {
		for at, end := segment.First, s.End(); at < end; {
			data, next := s.Record(at, end)
			at = next
			h, ok := headOf(data)
			if !ok || h.kind != opEnd || h.ref == nil || h.resource == 0 || h.resource != beganCarried && !g.beginsLater(h.resource) {
				continue
			}
			var mark [recordHead - 8 + refSize]byte
			copy(mark[:], data[:recordHead-8])
			mark[8], mark[9] = opMark, flagRef
			copy(mark[recordHead-8:], h.ref[:])
			g.carryRecord(mark[:])
		}
	})
}

// beginsLater reports whether a span may have its beginning in the stripe of the
// spans still, which beganOf has told of.
func (g *Ring) beginsLater(began uint32) bool { return int32(began-g.firstSpan) >= 0 }

func (g *Ring) carryRecord(data []byte) bool {
	g.buf = append(append(g.buf[:0], zeros[:8]...), data...)
	if g.carry == nil || !g.carry.Fits(len(g.buf)) {
		// Beyond most there is one for this.
		seg, err := g.r.pool.Take(carryStream, g.carryBase, true)
		if err != nil {
			return false
		}
		g.used++
		g.carryBase += segment.Size
		if g.carry != nil {
			g.full = append(g.full, g.carry)
			g.carried++
		}
		g.carry = seg
	}
	return g.carry.Append(g.buf, segment.Sum(g.buf[8:])) == nil
}

// faulted leaves the ring's file for the heap: its pages are gone. What they held
// is lost. No lock is held, or one stripe's, which is all that faults.
func (g *Ring) faulted(err error) {
	g.mu.Lock()
	if g.failed || g.closed || g.old != nil {
		g.mu.Unlock()
		return
	}
	g.failed = true
	g.mu.Unlock()
	g.leaving.Go(func() { // as that takes all locks
		if g.leaveFile() && g.o.OnError != nil {
			go g.tellLost(err) // which may close the ring
		}
	})
}

func (g *Ring) leaveFile() (left bool) {
	for i := range g.r.stripes {
		g.r.stripes[i].mu.Lock()
	}
	g.mu.Lock()
	told := g.closed || g.old != nil
	if !told {
		// What others still read stays mapped until Close.
		g.old, g.r.pool = g.r.pool, segment.New(g.most+1)
		for _, sn := range g.snapshots {
			sn.leave()
		}
		lost := g.carry
		for _, s := range append(g.full, lost) {
			if s != nil {
				g.evictions.add(s.Last, uint64(s.Fresh.Entries))
			}
		}
		for i := range g.r.stripes {
			if s := g.r.stripes[i].seg; s != nil {
				g.evictions.add(s.Last, uint64(s.Fresh.Entries))
			}
			g.r.stripes[i].leave()
		}
		g.full, g.carry, g.carried, g.used, g.ledger = nil, nil, 0, 0, ledger{}
	}
	g.mu.Unlock()
	for i := range g.r.stripes {
		g.r.stripes[i].mu.Unlock()
	}
	return !told
}

func (g *Ring) tellLost(cause error) {
	defer func() { _ = recover() }() // it must not take the application along
	g.o.OnError(fmt.Errorf("the ring %s was lost, it goes on in memory: %w", g.o.Path, cause))
}

// evictions are what was given up.
type evictions struct {
	total uint64
	last  int64 // the latest time of all
	list  []eviction
}

type eviction struct {
	last    int64
	entries uint64
}

// maxEvictions is how many times are known for what was given up. It is even.
const maxEvictions = 4096

func (e *evictions) add(last int64, entries uint64) {
	last = min(last, time.Now().UnixNano()) // some records say that they are of the future
	e.total += entries
	e.last = max(e.last, last)
	if len(e.list) == maxEvictions { // from now on half as exactly
		half := e.list[:0]
		for i := 0; i+1 < maxEvictions; i += 2 {
			a, b := e.list[i], e.list[i+1]
			half = append(half, eviction{max(a.last, b.last), a.entries + b.entries})
		}
		e.list = half
	}
	e.list = append(e.list, eviction{last, entries})
}

// since returns how many entries were given up that may be from after a time.
func (e *evictions) since(from int64) (n uint64) {
	for i := range e.list {
		if e.list[i].last >= from {
			n += e.list[i].entries
		}
	}
	return n
}

// maxRingOpen bounds the spans that are known to be open, since some never end:
// beyond it any one is not carried over.
const maxRingOpen = 512 << 10

// ringSpans are the spans whose beginning is in the ring, and not their end, and in
// which segment that is, or before it.
type ringSpans struct {
	*spanmap.Sharded[uint32]
}

func (o ringSpans) put(r SpanRef, segment uint32) { o.Set(r.key(), &segment) }

// later says that the beginning of a span may be in a later segment, unless it was
// carried over meanwhile.
func (o ringSpans) later(r SpanRef, segment uint32) {
	s := o.Lock(r.key())
	if at := s.Get(r.key()); at != nil && *at != beganCarried {
		*at = segment
	}
	s.Unlock()
}

func (o ringSpans) delete(r SpanRef) { o.Delete(r.key()) }

// get returns where an open span began.
func (o ringSpans) get(r SpanRef) (began uint32, open bool) {
	s := o.Lock(r.key())
	if at := s.Get(r.key()); at != nil {
		began, open = *at, true
	}
	s.Unlock()
	return began, open
}

// carry notes that the beginning of a span was carried over, if it is open, and
// reports that.
func (o ringSpans) carry(k *spanmap.Key) bool {
	s := o.Lock(k)
	at := s.Get(k)
	if at != nil {
		*at = beganCarried
	}
	s.Unlock()
	return at != nil
}
