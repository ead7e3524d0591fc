package format

import (
	"fmt"
	"sync"

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
		g.most = g.used // the disk has no room for more
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
	switch s.Stream() {
	case carryStream:
		g.carried--
		kept = g.carryOver(s)
	case uint64(len(g.r.stripes) - 1):
		kept = g.carryOver(s)
	}
	if s.Stream() != carryStream {
		g.evictions.add(s.Last, s.Fresh.Entries-min(kept, s.Fresh.Entries))
	} else {
		g.evictions.add(g.evictions.last, s.Fresh.Entries-min(kept, s.Fresh.Entries))
	}
	g.r.pool.Release(s)
	g.used--
	return true
}

// carryOver writes the beginnings of spans in s that are open to another segment,
// and returns how many entries these are.
func (g *Ring) carryOver(s *segment.Segment) (entries uint64) {
	if g.carried > g.most/8 {
		return 0 // more than that is open: the oldest go
	}
	var o record
	_ = s.Guard(func() { // of a page that is gone nothing can be carried over
		for at, end := segment.First, s.End(); at < end; {
			data, next := s.Record(at, end)
			at = next
			if data == nil || !o.parse(data) || o.kind != opSpan || o.flags&(flagOpen|flagRef) != flagOpen|flagRef || !g.open.has(o.ref) {
				continue
			}
			if g.carryRecord(data) {
				entries += uint64(countBodies(o.bodies))
				g.carry.Fresh.Entries += uint64(countBodies(o.bodies))
			}
		}
	})
	return entries
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
	g.leaving.Go(func() { g.leaveFile(err) }) // as that takes all locks
}

func (g *Ring) leaveFile(cause error) {
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
	if !told && g.o.OnError != nil {
		defer func() { _ = recover() }() // it must not take the application along
		g.o.OnError(fmt.Errorf("the ring %s was lost, it goes on in memory: %w", g.o.Path, cause))
	}
}

// evictions are what was given up.
type evictions struct {
	total  uint64
	last   int64 // the latest time of all
	list   []eviction
	latest int // in list, which is used over and over
}

type eviction struct {
	last    int64
	entries uint64
}

// maxEvictions is of how many segments it is known when they were.
const maxEvictions = 4096

func (e *evictions) add(last int64, entries uint64) {
	e.total += entries
	e.last = max(e.last, last)
	if len(e.list) < maxEvictions {
		e.list = append(e.list, eviction{last, entries})
		return
	}
	e.list[e.latest] = eviction{last, entries}
	e.latest = (e.latest + 1) % maxEvictions
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

	spans spanmap.Map[struct{}]

	_ [24]byte // a cache line each
}

func (o *ringSpans) shard(r *SpanRef) *ringShard {
	return &o[(r.SpanID[0]^r.SpanID[7])%ringShards]
}

func (o *ringSpans) put(r SpanRef) {
	s := o.shard(&r)
	s.mu.Lock()
	if s.spans.Len() >= maxRingOpen {
		s.spans.DeleteNear(r.key()) // any one: it is not carried over
	}
	s.spans.Put(r.key())
	s.mu.Unlock()
}

func (o *ringSpans) delete(r SpanRef) {
	s := o.shard(&r)
	s.mu.Lock()
	s.spans.Delete(r.key())
	s.mu.Unlock()
}

func (o *ringSpans) has(r SpanRef) bool {
	s := o.shard(&r)
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.spans.Get(r.key()) != nil
}

func (o *ringSpans) len() (n int) {
	for i := range o {
		o[i].mu.Lock()
		n += o[i].spans.Len()
		o[i].mu.Unlock()
	}
	return n
}
