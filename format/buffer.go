package format

import (
	"encoding/binary"
	"errors"
	"fmt"
	"time"

	"github.com/entrace-go/entrace/internal/segment"
)

// The crash buffer app.iet.buffer lies beside the growing app.iet. Its streams are
// those of the stripes, and the ledger: what waits for its parent, and which
// resource is which entry. A checkpoint says how much of each stream is in the
// first so many bytes of the IET; recovery cuts the IET to that and writes the
// rest of the streams behind it, so that each record is there exactly once.
const extBuffer = ".buffer"

// ledgerStream is the number of the ledger's stream, above those of all stripes.
const ledgerStream = maxStripes + 1

const (
	// maxSegments are 4 MiB, for what is on its way to the file.
	maxSegments = 64
	// maxParked is the size of the largest record that can wait.
	maxParked = segment.MaxRecord - recordHead
)

func (r *Recorder) bufferName() string { return r.stream + extBuffer }

// startBuffer gives r its stripes, unless its durability wants none.
func (r *Recorder) startBuffer() {
	r.timer = time.AfterFunc(time.Hour, r.onTimer)
	r.timer.Stop()
	var err error
	switch r.o.Durability {
	case DurabilityBuffered:
		r.pool = segment.New(maxSegments)
	case DurabilityProcess:
		if !segment.Supported {
			err = errors.ErrUnsupported
			break
		}
		segments := maxSegments + 2*(r.o.MaxWaitingBytes/segment.Size+1)
		r.pool, err = segment.Create(r.bufferName(), segments)
	}
	if err != nil {
		r.fallback = fmt.Errorf("no crash buffer: %w", err)
		r.reports = r.fallback
	}
	if r.pool == nil {
		return
	}
	n := numStripes()
	r.stripes = make([]stripe, n+1)
	r.cursors = make([]cursor, n+1)
	for i := range r.stripes {
		r.stripes[i].number = uint64(i)
		r.cursors[i].stripe = &r.stripes[i]
	}
	if r.o.Durability == DurabilityProcess {
		r.ledger.file = r.pool
	}
	r.direct.Store(false)
	r.checkpoint()
}

// faulted is told of a fault of the map.
func (r *Recorder) faulted(err error) {
	if r.ring != nil {
		r.ring.faulted(err)
		return
	}
	r.leaveBuffer(err)
}

// leaveBuffer makes calls write to the file themselves: the map is gone.
func (r *Recorder) leaveBuffer(err error) {
	r.bufferErr.CompareAndSwap(nil, &err)
	r.direct.Store(true)
}

// abandon leaves a buffer that cannot be used any more, for writing through.
func (r *Recorder) abandon(err error) {
	if err != nil || len(r.out) > 0 {
		return // what is in it is not in the file yet
	}
	for i := range r.cursors {
		if c := &r.cursors[i]; !c.leave() {
			return // somebody was faster
		}
	}
	r.fallback = errors.New("the crash buffer was lost")
	if cause := r.bufferErr.Load(); cause != nil {
		r.fallback = fmt.Errorf("the crash buffer was lost: %w", *cause)
	}
	r.failed(r.fallback)
	r.failing = false
	_ = r.pool.Remove() // what it held is in the file
	r.pool, r.ledger = nil, ledger{}
}

// closeBuffer removes the buffer when everything is in the file, err being nil,
// and reports whether that is so.
func (r *Recorder) closeBuffer(err error) bool {
	if r.pool == nil {
		return true
	}
	whole := err == nil && len(r.out) == 0 && r.dead == nil
	if whole {
		_ = r.pool.Remove() // a file that stays is found to hold nothing new
	} else {
		_ = r.pool.Close()
	}
	r.ledger = ledger{}
	return whole
}

// A position of the checkpoint is where a stream goes on that is not in the IET.
// The checkpoint's data is:
//
//	size       uint64   // of the IET
//	tail       [64]byte // its last bytes, those before a shorter one are zero
//	version    uint8    // in which the records are encoded
//	moved      uint8    // 1: the ids in the ledger are those of another IET
//	home       uint32   // see Recorder.AppendHead; 0: there is none
//	reserved   [2]byte
//	ledgerFrom uint64
//	ledgerTo   uint64
//	streams    uint64
//	positions  [streams]uint64
const checkpointHead = 8 + tailSize + 8 + 8 + 8 + 8

// checkpoint notes in the buffer how much of it is in the file, and gives back
// the segments that are done with.
func (r *Recorder) checkpoint() {
	if r.pool == nil || r.closed || len(r.out) > 0 {
		return
	}
	if r.ledger.file != nil {
		r.ledger.compact(r)
		var buf [checkpointHead + 8*(maxStripes+1)]byte
		b := binary.LittleEndian.AppendUint64(buf[:0], uint64(r.size))
		b = append(b, r.tail.b[:]...)
		b = binary.LittleEndian.AppendUint64(b, uint64(r.version)|uint64(r.home)<<16)
		b = binary.LittleEndian.AppendUint64(b, r.ledger.from())
		b = binary.LittleEndian.AppendUint64(b, r.ledger.to())
		b = binary.LittleEndian.AppendUint64(b, uint64(len(r.cursors)))
		for i := range r.cursors {
			b = binary.LittleEndian.AppendUint64(b, r.cursors[i].position())
		}
		if err := r.pool.Checkpoint(b); err != nil {
			r.leaveBuffer(err) // and leave the segments alone
			return
		}
	}
	for _, s := range r.done {
		r.pool.Release(s)
	}
	clear(r.done)
	r.done = r.done[:0]
}

// tailSize is how many of its last bytes tell one IET from another.
const tailSize = 64

// A tail is the last bytes of the file.
type tail struct{ b [tailSize]byte }

func (t *tail) add(b []byte) {
	if len(b) >= tailSize {
		copy(t.b[:], b[len(b)-tailSize:])
		return
	}
	copy(t.b[:], t.b[len(b):])
	copy(t.b[tailSize-len(b):], b)
}

// A ledger is the recorder's own stream in the crash buffer.
type ledger struct {
	file *segment.File // nil without
	segs []*segment.Segment
	old  []*segment.Segment // replaced, but in the checkpoint still
	base uint64
	live int // bytes of what waits, and of resources
	buf  []byte
}

func (l *ledger) from() uint64 {
	if len(l.segs) == 0 {
		return l.base
	}
	return l.segs[0].Base()
}

func (l *ledger) to() uint64 {
	if len(l.segs) == 0 {
		return l.base
	}
	s := l.segs[len(l.segs)-1]
	return s.Base() + uint64(s.End())
}

// header begins a record in l.buf.
func (l *ledger) header(kind byte, resource uint32, key uint64) {
	l.buf = append(l.buf[:0], zeros[:recordHead]...)
	binary.LittleEndian.PutUint64(l.buf[8:], key)
	l.buf[16] = kind
	binary.LittleEndian.PutUint32(l.buf[20:], resource)
}

// append appends l.buf and returns its position.
func (l *ledger) append() (uint64, error) {
	if n := len(l.buf) % 8; n != 0 {
		l.buf = append(l.buf, zeros[:8-n]...)
	}
	if len(l.buf) > segment.MaxRecord {
		return 0, segment.ErrFull
	}
	if n := len(l.segs); n == 0 || !l.segs[n-1].Fits(len(l.buf)) {
		s, err := l.file.Take(ledgerStream, l.base, true)
		if err != nil {
			return 0, err
		}
		l.segs = append(l.segs, s)
		l.base += segment.Size
	}
	s := l.segs[len(l.segs)-1]
	position := s.Base() + uint64(s.End())
	return position, s.Append(l.buf, segment.Sum(l.buf[8:]))
}

// park keeps s for recovery, and reports whether it can.
func (l *ledger) park(s *waitingSpan) bool {
	if l.file == nil {
		return true // it is lost with the process, as everything is then
	}
	l.header(opPark, 0, 0)
	l.buf = append(l.buf, s.data...)
	position, err := l.append()
	if err != nil {
		return false
	}
	s.position = position
	l.live += len(l.buf)
	return true
}

func (l *ledger) unpark(s *waitingSpan) {
	if l.file == nil {
		return
	}
	l.live -= recordHead + len(s.data)
	l.header(opUnpark, 0, s.position)
	_, _ = l.append() // without it the span would be there twice: better than not at all
}

// resource notes which entry a resource is, and that it is the latest one of
// those that are noted.
func (l *ledger) resource(res *Resource) {
	if l.file == nil {
		return
	}
	l.header(opResource, res.index, uint64(res.id))
	l.buf = append(l.buf, zeros[:bodyHead]...)
	binary.LittleEndian.PutUint32(l.buf[recordHead:], uint32(len(res.body)))
	binary.LittleEndian.PutUint32(l.buf[recordHead+4:], uint32(res.head))
	l.buf = append(l.buf, res.body...)
	if _, err := l.append(); err != nil {
		// Without its text, which is in the file.
		l.header(opResource, res.index, uint64(res.id))
		_, _ = l.append()
	}
}

// resources notes anew which entries the resources are.
func (l *ledger) resources(r *Recorder) {
	for _, res := range r.all {
		if res != r.latest {
			l.resource(res)
		}
	}
	if r.latest != nil {
		l.resource(r.latest)
	}
}

// compact writes the ledger anew when most of it is of the past.
func (l *ledger) compact(r *Recorder) {
	for _, s := range l.old {
		l.file.Release(s)
	}
	l.old = l.old[:0]
	if len(l.segs) < 4 || len(l.segs)*segment.Size < 3*l.live {
		return
	}
	old, live := l.segs, l.live
	l.segs, l.live = nil, 0
	l.resources(r)
	var moved []uint64
	for s := r.waiting.oldest; s != nil; s = s.next {
		was := s.position
		if !l.park(s) {
			break
		}
		moved = append(moved, was)
	}
	if len(moved) == r.waiting.spans {
		l.old = old
		return
	}
	// No room: all goes on as it was, and nothing may be left of the attempt.
	s := r.waiting.oldest
	for _, was := range moved {
		s.position, s = was, s.next
	}
	for _, seg := range l.segs {
		seg.Void()
		l.file.Release(seg)
	}
	l.segs, l.live = old, live
}
