package format

import (
	"fmt"
	"math"
	"sync"
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
		s.seg = nil
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
	return nil
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
	case uint64(len(g.r.stripes) - 1):
		kept = g.carryOver(s)
		g.firstSpan = s.Last
	default:
		if s.Ends > 0 {
			g.carryEnds(s)
		}
	}
	g.evictions.add(last, s.Fresh.Entries-min(kept, s.Fresh.Entries))
	g.r.pool.Release(s)
	g.used--
	return true
}

// carryOver writes the beginnings of spans in s that are open to another segment,
// and returns how many entries these are; and of a segment of such the marks of
// ends, as carryEnds writes them.
func (g *Ring) carryOver(s *segment.Segment) (entries uint64) {
	var o record
	_ = s.Guard(func() { // of a page that is gone nothing can be carried over
		for at, end := segment.First, s.End(); at < end; {
			data, next := s.Record(at, end)
			at = next
			// Most are of another kind: they are not looked at any closer.
			if len(data) < recordHead-8 || data[8] != opSpan && data[8] != opMark || !o.parse(data) {
				continue
			}
			switch {
			case o.kind == opMark && o.resource != beganCarried && g.beginsLater(o.resource):
				g.carryRecord(data)
			case o.kind == opSpan && o.flags&(flagOpen|flagRef) == flagOpen|flagRef && g.open.carry(o.ref):
				if g.carryRecord(data) {
					n := uint64(countBodies(o.bodies))
					entries += n
					g.carry.Fresh.Entries += n
				}
			}
		}
	})
	return entries
}

// carryEnds notes which spans have ended whose ends are in s: those whose beginning
// may still be there would be taken for open.
func (g *Ring) carryEnds(s *segment.Segment) {
	var o record
	_ = s.Guard(func() {
		for at, end := segment.First, s.End(); at < end; {
			data, next := s.Record(at, end)
			at = next
			if len(data) < recordHead-8 || data[8] != opEnd || !o.parse(data) || o.resource == 0 || o.resource != beganCarried && !g.beginsLater(o.resource) {
				continue
			}
			var mark [recordHead - 8 + refSize]byte
			copy(mark[:], data[:recordHead-8])
			mark[8], mark[9] = opMark, flagRef
			copy(mark[recordHead-8:], o.ref.TraceID[:])
			copy(mark[recordHead-8+16:], o.ref.SpanID[:])
			g.carryRecord(mark[:])
		}
	})
}

// beginsLater reports whether a span that began then, see beganAt, may have its
// beginning in the stripe of the spans still.
func (g *Ring) beginsLater(began uint32) bool {
	return g.firstSpan == math.MinInt64 || int32(began-beganAt(g.firstSpan)) >= 0
}

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
				g.evictions.add(s.Last, s.Fresh.Entries)
			}
		}
		for i := range g.r.stripes {
			if s := g.r.stripes[i].seg; s != nil {
				g.evictions.add(s.Last, s.Fresh.Entries)
			}
			g.r.stripes[i].seg = nil
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

// ringSpans are the spans whose beginning is in the ring, and not their end.
type ringSpans [ringShards]ringShard

const (
	ringShards = 64
	// maxRingOpen bounds those of a shard, since some never end.
	maxRingOpen = 8 << 10
)

type ringShard struct {
	mu sync.Mutex

	spans spanmap.Map[uint32] // when they began, see beganAt

	_ [24]byte // a cache line each
}

func (o *ringSpans) shard(r *SpanRef) *ringShard {
	return &o[(r.SpanID[0]^r.SpanID[7])%ringShards]
}

func (o *ringSpans) put(r SpanRef, key int64) {
	s := o.shard(&r)
	s.mu.Lock()
	if s.spans.Len() >= maxRingOpen {
		s.spans.DeleteNear(r.key()) // any one: it is not carried over
	}
	at, _ := s.spans.Put(r.key())
	*at = beganAt(key)
	s.mu.Unlock()
}

func (o *ringSpans) delete(r SpanRef) {
	s := o.shard(&r)
	s.mu.Lock()
	s.spans.Delete(r.key())
	s.mu.Unlock()
}

// get returns when an open span began.
func (o *ringSpans) get(r SpanRef) (began uint32, open bool) {
	s := o.shard(&r)
	s.mu.Lock()
	defer s.mu.Unlock()
	if at := s.spans.Get(r.key()); at != nil {
		return *at, true
	}
	return 0, false
}

// carry notes that the beginning of a span was carried over, if it is open, and
// reports that.
func (o *ringSpans) carry(r SpanRef) bool {
	s := o.shard(&r)
	s.mu.Lock()
	defer s.mu.Unlock()
	at := s.spans.Get(r.key())
	if at != nil {
		*at = beganCarried
	}
	return at != nil
}

func (o *ringSpans) len() (n int) {
	for i := range o {
		o[i].mu.Lock()
		n += o[i].spans.Len()
		o[i].mu.Unlock()
	}
	return n
}
