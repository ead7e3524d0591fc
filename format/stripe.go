package format

import (
	"errors"
	"runtime"
	"sync"
	"time"

	"github.com/entrace-go/entrace/internal/segment"
)

// Calls put their records into stripes, of which each goroutine tends to have its
// own, and never wait for the file. Log records and what comes later of a span go
// to any stripe; spans themselves, which others refer to, go to one of their own,
// in order. What the flusher takes is what was in all of them at one moment:
// whatever is there refers to spans that are there, too.
//
// What each record changes is in the first cache line, or in the segment's only one.
type stripe struct {
	mu sync.Mutex

	closed bool
	seg    *segment.Segment
	fresh  int                // bytes that were not added to Recorder.fresh yet
	number uint64             // of the stream
	base   uint64             // of the next segment
	full   []*segment.Segment // those before seg that the flusher has not seen

	// Offered and dropped, but for what the segments have as fresh.
	entries, spans Counts

	_ [40]byte // a multiple of a line
}

// settle takes what is fresh in a segment of s, which is locked, to its account. It
// is not to count again.
func (s *stripe) settle(seg *segment.Segment) {
	s.entries.Offered += uint64(seg.Fresh.Entries)
	s.spans.Offered += uint64(seg.Fresh.Spans)
}

// leave leaves the segment of s, which is locked.
func (s *stripe) leave() {
	if s.seg != nil {
		s.settle(s.seg)
		s.seg = nil
	}
}

// account adds what s, which is locked, counts.
func (s *stripe) account(a *Stats) {
	a.Entries.add(&s.entries)
	a.Spans.add(&s.spans)
	fresh := func(seg *segment.Segment) {
		a.Entries.add(&Counts{Offered: uint64(seg.Fresh.Entries)})
		a.Spans.add(&Counts{Offered: uint64(seg.Fresh.Spans)})
	}
	for _, seg := range s.full {
		fresh(seg)
	}
	if s.seg != nil {
		fresh(s.seg)
	}
}

const (
	maxStripes = 16
	// drainAt is how many bytes wake the flusher: with what stripes have not
	// reported yet it stays below 256 KiB.
	drainAt     = 192 << 10
	reportEvery = 4 << 10
	drainAfter  = 100 * time.Millisecond
)

// numStripes returns how many stripes there are for leaves, a power of two.
func numStripes() int {
	n := 2
	for n < 2*runtime.GOMAXPROCS(0) && n < maxStripes {
		n *= 2
	}
	return n
}

func (s *stripe) count(o *op) {
	s.entries.Offered += uint64(o.entries)
	s.spans.Offered += o.spans()
}

func (s *stripe) drop(o *op, err error) {
	s.count(o)
	*s.entries.Dropped.reason(err) += uint64(o.entries)
	*s.spans.Dropped.reason(err) += o.spans()
}

// errNoRoom says that there is no segment for a record.
var errNoRoom = errors.New("no room in the buffer")

// take records the batch b.
func (r *Recorder) take(b *Batch) error {
	if r.ring != nil {
		return r.ring.take(b)
	}
	if r.direct.Load() {
		return r.takeDirect(b, b.ops)
	}
	var errs joined
	for i := range b.ops {
		if err := r.put(b, &b.ops[i]); err != nil {
			errs.add(err)
		}
	}
	return errs.err()
}

// put records one record of b.
func (r *Recorder) put(b *Batch, o *op) error {
	err := r.tryPut(b, o)
	if err == nil || !errors.Is(err, errNoRoom) {
		return err
	}
	if o.end-o.start > segment.MaxRecord || r.direct.Load() {
		return r.takeDirect(b, []op{*o})
	}
	return r.putLater(b, o)
}

// lockStripe returns the stripe for o, locked.
func (r *Recorder) lockStripe(b *Batch, o *op) *stripe {
	if o.kind == opSpan || o.kind == opEither {
		s := &r.stripes[len(r.stripes)-1]
		s.mu.Lock()
		return s
	}
	return r.lockLeaf(&b.stripe)
}

// lockLeaf returns a stripe for leaves, locked: that of the number last, or else
// the next that nobody else has, whose number it notes.
func (r *Recorder) lockLeaf(last *uint32) *stripe {
	n := uint32(len(r.stripes) - 1)
	s := &r.stripes[*last&(n-1)]
	if s.mu.TryLock() {
		return s
	}
	for i := uint32(1); i < n; i++ {
		other := &r.stripes[(*last+i)&(n-1)]
		if other.mu.TryLock() {
			*last += i
			return other
		}
	}
	s.mu.Lock()
	return s
}

// tryPut puts a record into a stripe, or returns errNoRoom.
func (r *Recorder) tryPut(b *Batch, o *op) error {
	data := b.buf[o.start:o.end]
	s := r.lockStripe(b, o)
	seg := s.seg
	if seg == nil || !seg.Fits(len(data)) || s.closed || o.bad != 0 {
		if err := r.makeRoom(s, b, o); err != nil {
			s.mu.Unlock()
			return err
		}
		seg = s.seg
	}
	if err := seg.Append(data, o.sum); err != nil {
		s.mu.Unlock()
		r.faulted(err)
		return errNoRoom
	}
	seg.Fresh.Entries += uint32(o.entries)
	seg.Fresh.Spans += uint32(o.spans())
	if g := r.ring; g != nil {
		seg.Last = max(seg.Last, o.key)
		if o.kind == opEnd {
			seg.Ends++
		}
		b.streams = g.streams.Load() // with the lock, as a stream begins with that of all
		s.mu.Unlock()
		return nil
	}
	enough := s.report(r, len(data))
	s.mu.Unlock()
	r.soon(enough)
	return nil
}

// makeRoom gives s, which is locked, a segment for o, or counts o as dropped unless
// the error is errNoRoom.
func (r *Recorder) makeRoom(s *stripe, b *Batch, o *op) error {
	err := b.errOf(o)
	if s.closed {
		err = ErrClosed
	}
	if err == nil {
		err = r.nextSegment(s, o.end-o.start)
	}
	if err != nil && !errors.Is(err, errNoRoom) {
		s.drop(o, err)
	}
	return err
}

// report counts n more bytes in the stripe, and reports whether it is time to
// drain.
func (s *stripe) report(r *Recorder, n int) (enough bool) {
	if s.fresh += n; s.fresh < reportEvery {
		return false
	}
	enough = r.fresh.Add(int64(s.fresh)) >= drainAt
	s.fresh = 0
	return enough
}

// soon sees to it that what is in the stripes is in the file in time, or now.
func (r *Recorder) soon(now bool) {
	if now {
		r.wake()
	} else if !r.armed.Load() {
		r.arm()
	}
}

// nextSegment gives s another segment. It is locked.
func (r *Recorder) nextSegment(s *stripe, n int) error {
	if r.ring != nil {
		return r.ring.nextSegment(s, n)
	}
	if n > segment.MaxRecord || r.direct.Load() {
		return errNoRoom
	}
	seg, err := r.pool.Take(s.number, s.base, false)
	if err != nil {
		if !errors.Is(err, segment.ErrFull) {
			r.leaveBuffer(err)
		}
		return errNoRoom
	}
	if s.seg != nil {
		s.full = append(s.full, s.seg)
	}
	s.seg = seg
	s.base += segment.Size
	return nil
}

// putLater puts a record for which there was no room: it lets the flusher make
// some. It never writes itself, as a write may stand for ever.
func (r *Recorder) putLater(b *Batch, o *op) error {
	const pause = 100 * time.Microsecond
	drains := r.drains.Load()
	for begin := time.Now(); ; {
		r.wake()
		time.Sleep(pause)
		if perr := r.tryPut(b, o); !errors.Is(perr, errNoRoom) {
			return perr
		}
		if r.direct.Load() {
			return r.takeDirect(b, []op{*o})
		}
		var err error
		if failed := r.drainErr.Load(); failed != nil && r.drains.Load() != drains {
			err = *failed // the disk is full, or worse
		} else if time.Since(begin) > r.o.MaxBlock {
			err = ErrOverflow
		} else {
			continue
		}
		s := r.lockStripe(b, o)
		s.drop(o, err)
		s.mu.Unlock()
		if r.mu.TryLock() { // else who has it waits for the disk, and will tell
			r.failed(err)
			r.unlock()
		}
		return err
	}
}

// arm sets the timer.
func (r *Recorder) arm() {
	if r.armed.CompareAndSwap(false, true) {
		r.timer.Reset(drainAfter)
	}
}

// wake drains in the background, now.
func (r *Recorder) wake() {
	r.fresh.Store(0)
	if r.draining.TryLock() {
		go func() {
			tell := r.drainLater()
			r.draining.Unlock() // first, as OnError may call Close
			tell()
		}()
	}
}

// onTimer runs when something has to be done in time.
func (r *Recorder) onTimer() { r.drainLater()() }

// drainLater drains, and returns what tells OnError of it.
func (r *Recorder) drainLater() (tell func()) {
	r.mu.Lock()
	if !r.closed {
		failed := new(error)
		if *failed = r.drain(); *failed == nil {
			failed = nil
		}
		r.drainErr.Store(failed)
		r.drains.Add(1)
		r.setTimer()
	}
	return r.unlocked()
}
