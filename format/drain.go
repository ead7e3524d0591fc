package format

import (
	"fmt"
	"math"

	"github.com/entrace-go/entrace/internal/segment"
)

// A cursor is how far the flusher has come in a stripe.
type cursor struct {
	stripe *stripe
	parts  []part // not done yet
	at     int    // in the first of them
	left   uint64 // the position when there are no parts
	key    int64  // of the record at at, not less than those before
	data   []byte // the record, nil at the end
}

// A part is a segment up to an end.
type part struct {
	seg    *segment.Segment
	end    int
	counts segment.Counts // of what was not drained of it yet
}

// position returns where the cursor is in its stream.
func (c *cursor) position() uint64 {
	if len(c.parts) == 0 {
		return c.left
	}
	return c.parts[0].seg.Base() + uint64(c.at)
}

// capture notes what is in the stripes now, at one moment for all of them: what a
// goroutine recorded first is never left for a later time than what came next.
func (r *Recorder) capture() {
	for i := range r.stripes {
		r.stripes[i].mu.Lock()
	}
	for i := range r.cursors {
		r.cursors[i].capture()
	}
	for i := range r.stripes {
		r.stripes[i].mu.Unlock()
	}
}

// capture notes what is in the stripe, which is locked.
func (c *cursor) capture() {
	s := c.stripe
	for _, seg := range s.full {
		c.add(seg)
	}
	s.full = s.full[:0]
	if s.seg != nil {
		c.add(s.seg)
	}
	s.fresh = 0
}

func (c *cursor) add(seg *segment.Segment) {
	n := len(c.parts)
	if n == 0 || c.parts[n-1].seg != seg {
		if n == 0 {
			c.at = segment.First
		}
		c.parts = append(c.parts, part{seg: seg})
		n++
	}
	p := &c.parts[n-1]
	p.end = seg.End()
	p.counts.Entries += seg.Fresh.Entries
	p.counts.Spans += seg.Fresh.Spans
	c.stripe.settle(seg)
	seg.Fresh = segment.Counts{}
}

// leave takes the stripe its segment, unless something has come meanwhile.
func (c *cursor) leave() bool {
	s := c.stripe
	s.mu.Lock()
	defer s.mu.Unlock()
	if n := len(c.parts); len(s.full) > 0 || s.seg != nil && (n != 1 || c.parts[0].seg != s.seg || c.at < s.seg.End()) {
		return false
	}
	c.left = c.position()
	s.seg, c.parts = nil, nil
	return true
}

// advance finds the next record. What is done with goes to r.done.
func (c *cursor) advance(r *Recorder) {
	c.data = nil
	for len(c.parts) > 0 {
		p := c.parts[0]
		if c.at < p.end {
			var data []byte
			var key int64
			err := p.seg.Guard(func() {
				if data, _ = p.seg.Record(c.at, p.end); len(data) >= recordHead-8 {
					key = int64(leUint64(data))
				} else {
					data = nil
				}
			})
			if err == nil && data != nil {
				c.data, c.key = data, max(c.key, key)
				return
			}
			r.lost(c, err)
			continue
		}
		if len(c.parts) == 1 {
			return // it may grow
		}
		r.done = append(r.done, p.seg)
		copy(c.parts, c.parts[1:])
		c.parts = c.parts[:len(c.parts)-1]
		c.at = segment.First
	}
}

func leUint64(b []byte) uint64 {
	_ = b[7]
	return uint64(b[0]) | uint64(b[1])<<8 | uint64(b[2])<<16 | uint64(b[3])<<24 |
		uint64(b[4])<<32 | uint64(b[5])<<40 | uint64(b[6])<<48 | uint64(b[7])<<56
}

// lost gives up a segment that can be read no more: its page is gone, or
// something else has written to the file.
func (r *Recorder) lost(c *cursor, err error) {
	if err == nil {
		err = segment.ErrNotBuffer
	}
	r.leaveBuffer(err)
	err = fmt.Errorf("crash buffer %s: %w", r.pool.Name(), err)
	p := &c.parts[0]
	r.drop(err, uint64(p.counts.Entries), 0)
	r.stats.Spans.Dropped.IO += uint64(p.counts.Spans)
	r.drained.Entries.Offered += uint64(p.counts.Entries)
	r.drained.Spans.Offered += uint64(p.counts.Spans)
	p.counts = segment.Counts{}
	c.at = p.end
}

// drain writes what is in the stripes to the file, in the order of time as far
// as that goes, and notes in the crash buffer that it did.
func (r *Recorder) drain() error {
	switch {
	case r.closed:
		return ErrClosed
	case r.dead != nil:
		return r.dead
	case r.pool == nil:
		r.letGo()
		r.rotateIfDue()
		return r.dead
	}
	if err := r.flush(); err != nil { // of an earlier time
		return err
	}
	r.armed.Store(false)
	r.fresh.Store(0)
	r.capture()
	r.adopt() // what the records name that were captured
	for i := range r.cursors {
		c := &r.cursors[i]
		c.key = math.MinInt64 // one wrong time must not put off what comes later for ever
		c.advance(r)
	}
	err := r.merge()
	if err == nil {
		r.letGo()
		err = r.flush()
	}
	if err == nil {
		r.checkpoint()
		r.rotateIfDue()
	}
	if r.direct.Load() {
		r.abandon(err)
	}
	return err
}

// merge applies the records of all cursors.
func (r *Recorder) merge() error {
	spans := &r.cursors[len(r.cursors)-1]
	for {
		c, limit := r.oldest()
		if c == nil {
			return nil
		}
		if !r.run(c, spans, limit) {
			r.run(spans, spans, math.MinInt64) // one of them
		}
		if len(r.out) >= flushSize || r.rotates() && r.tooBig() {
			if err := r.flush(); err != nil {
				return err
			}
			r.checkpoint()
			r.rotateIfDue()
		}
	}
}

// oldest returns the cursor whose record is the oldest, nil if there is none, and
// how old the oldest of the others is.
func (r *Recorder) oldest() (first *cursor, limit int64) {
	limit = math.MaxInt64
	for i := range r.cursors {
		c := &r.cursors[i]
		switch {
		case c.data == nil:
		case first == nil:
			first = c
		case c.key < first.key:
			first, limit = c, min(limit, first.key)
		default:
			limit = min(limit, c.key)
		}
	}
	return first, limit
}

// run applies records of one segment: that at c, and those behind it up to the
// time limit. It returns false when the first one is of a span that may be among
// those not seen yet, which is so when times are not what they seem.
func (r *Recorder) run(c, spans *cursor, limit int64) bool {
	p := &c.parts[0]
	entries, spanCount := r.settled()
	rotates := r.rotates()
	first, early := true, false
	o := &r.record
	err := p.seg.Guard(func() {
		for at := c.at; at < p.end; at = c.at {
			data, next := p.seg.Record(at, p.end)
			if !o.parse(data) {
				return // see below
			}
			if c.key = max(c.key, o.key); !first && (c.key > limit || len(r.out) >= flushSize || rotates && r.tooBig()) {
				return
			}
			if c != spans && spans.data != nil && o.flags&flagRef != 0 {
				if r.spans.get(&o.ref) == nil {
					early = first
					return
				}
			}
			_ = r.apply(o, data) // kept and counted
			c.at, first = next, false
		}
	})
	entriesNow, spansNow := r.settled()
	entries, spanCount = entriesNow-entries, spansNow-spanCount
	p.counts.Entries -= uint32(entries)
	p.counts.Spans -= uint32(spanCount)
	r.drained.Entries.Offered += entries
	r.drained.Spans.Offered += spanCount
	if err != nil || first && !early {
		r.lost(c, err)
	}
	c.advance(r)
	return !early
}

// settled returns how many entries and spans are staged, written, waiting or
// dropped of those that came through stripes.
func (r *Recorder) settled() (entries, spans uint64) {
	entries = r.next + uint64(r.waiting.entries) + r.stats.Entries.Dropped.Total() - r.stats.Entries.Offered
	return entries, r.spansStaged + uint64(r.waiting.spans) + r.stats.Spans.Dropped.Total() - r.stats.Spans.Offered
}
