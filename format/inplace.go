package format

import (
	"encoding/binary"
	"slices"
	"time"

	"github.com/entrace-go/entrace/internal/segment"
)

// A lane is the stripe that a processor used last, so that each tends to have one
// of its own.
type lane struct{ stripe uint32 }

// LogRaw records a log record, as [Batch.Log] does, that the caller encodes: fill
// puts message, metadata and attributes into buf, which has size bytes, as the
// layout of the recorder's version has them, all texts valid UTF-8, names sorted
// in version 2. It returns how many bytes that are and where among them the number
// of attributes is. What is wrong there makes the file one that cannot be read.
//
// The buffer may be the crash buffer itself: fill must not block, record, or keep
// buf, and may use all of it. The error is that of [Batch.Write].
func (r *Recorder) LogRaw(ref *SpanRef, unixNano int64, size int, fill func(buf []byte) (n, attributes int)) error {
	if !r.Takes(ProviderLogs) {
		return nil
	}
	if unixNano == 0 {
		unixNano = time.Now().UnixNano()
	}
	most := recordHead + bodyHead + size + 8 + refSize
	if most = (most + 7) &^ 7; most <= segment.MaxRecord && size <= r.maxEntry-maxAdded && !r.direct.Load() && r.ring.alone() {
		if done, enough, seen := r.logInPlace(ref, unixNano, most, fill); done {
			if r.ring == nil {
				r.soon(enough)
			} else if seen != nil {
				r.ring.tell(seen)
			}
			return nil
		}
	}
	b := r.Batch()
	b.room()
	b.buf = slices.Grow(b.buf, size)
	n, attributes := fill(b.buf[b.body : b.body+size])
	b.buf, b.attrs, b.open = b.buf[:b.body+n], b.body+attributes, false
	b.fits()
	b.Log(*ref, unixNano)
	return b.Write()
}

// logInPlace records a log record of at most so many bytes where it stays, unless
// that has to go another way.
func (r *Recorder) logInPlace(ref *SpanRef, unixNano int64, most int, fill func(buf []byte) (n, attributes int)) (done, enough bool, seen *Seen) {
	l, _ := r.lanes.Get().(*lane)
	if l == nil {
		l = &lane{r.nextStripe.Add(1)}
	}
	s := r.lockLeaf(&l.stripe)
	r.lanes.Put(l)
	defer s.mu.Unlock()
	if r.ring != nil && !r.ring.alone() {
		return false, false, nil // a stream has begun meanwhile
	}
	if s.closed || (s.seg == nil || !s.seg.Fits(most)) && r.nextSegment(s, most) != nil {
		return false, false, nil
	}
	size := 0
	err := s.seg.Place(most, func(b []byte) int {
		const body = recordHead + bodyHead
		n, attributes := fill(b[body : len(b)-8-refSize])
		binary.LittleEndian.PutUint64(b[8:], uint64(unixNano))
		binary.LittleEndian.PutUint64(b[16:], opLog|uint64(ProviderLogs)<<16)
		binary.LittleEndian.PutUint32(b[recordHead:], uint32(n))
		binary.LittleEndian.PutUint32(b[recordHead+4:], uint32(attributes))
		if r.ring != nil {
			seen = r.ring.see(b[body:body+n], ref)
		}
		n += body
		binary.LittleEndian.PutUint64(b[n:], 0) // what is needed of it is padding
		n = (n + 7) &^ 7
		if ref.IsValid() {
			b[17] = flagRef
			copy(b[n:], ref.TraceID[:])
			copy(b[n+16:], ref.SpanID[:])
			n += refSize
		}
		size = n
		return n
	})
	if err != nil {
		r.faulted(err)
		return false, false, nil
	}
	s.seg.Fresh.Entries++
	if r.ring != nil {
		s.seg.Last = max(s.seg.Last, unixNano)
		return true, false, seen
	}
	return true, s.report(r, size), nil
}
