package format

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/entrace-go/entrace/internal/segment"
)

// A Recorder writes one trace: it streams an IET file and turns it into an ET
// file when it is closed. What a call hands to it survives what its [Durability]
// says once the call has returned. By default that is in the crash buffer then,
// and in the file a tenth of a second later, or after [Recorder.Flush].
//
// A Recorder is safe for concurrent use.
type Recorder struct {
	o        RecorderOptions // without anything left open
	version  Version
	maxEntry int
	stream   string // the IET file
	final    string // the file that Close leaves
	slot     *slot  // where Create finds the recorder again; nil: it discards
	refs     int    // guarded by slot.mu

	on   atomic.Uint64 // the Providers that are taken
	ring *Ring         // that it feeds; nil: a file
	home uint32        // what entries of other providers hang below

	adopted adoptions

	batches    sync.Pool // of *Batch
	lanes      sync.Pool // of *lane
	nextStripe atomic.Uint32
	stripes    []stripe
	direct     atomic.Bool           // there is no buffer: calls write to the file themselves
	bufferErr  atomic.Pointer[error] // why that is so, if it was not at first
	armed      atomic.Bool           // the timer is set for what is in the stripes
	fresh      atomic.Int64          // about how many bytes are in them
	draining   sync.Mutex            // held by the goroutine that drains because of these
	drains     atomic.Uint64         // how often the flusher has drained
	drainErr   atomic.Pointer[error] // what came of it the last time
	timer      *time.Timer

	mu sync.Mutex

	pool     *segment.File // of the stripes; nil without
	fallback error         // why there is no crash buffer
	cursors  []cursor
	done     []*segment.Segment // drained, but in the checkpoint still
	ledger   ledger

	f        *os.File
	w        stream // f, but in tests of what happens when f fails
	closed   bool
	dead     error // the file cannot be written to any more
	err      error // the last error
	failing  bool
	reports  error // what OnError is to be told
	looked   time.Time
	unlinked error  // the file has lost its name
	size     int64  // of the file: everything in it is whole
	next     uint64 // id of the next entry
	out      []byte // entries that are staged, to be written at once
	staged   []staged
	forTee   []TeeEntry
	index    index
	tail     tail
	spans    spanTable
	waiting  waitingRoom
	// spansStaged is how many spans were ever staged.
	spansStaged uint64
	drained     Stats // entries and spans that left the stripes are Offered here
	stats       Stats // what is written, and what was dropped below the stripes
	ready       []*waitingSpan
	holds       bool      // what waits for a span is to wait until that is in the file
	held        []SpanRef // those spans
	record      record    // that is drained
	latest      *Resource
	known       map[string]*Resource // by body
	all         []*Resource          // by index, from 1 on
	began       time.Time            // the file
	first       uint64               // id of what came to it first
	notBefore   time.Time            // the next attempt to rotate
	finished    background

	sync groupSync
}

// A staged entry is encoded in out, but not in the file yet.
type staged struct {
	end      int // in out
	id       uint32
	parent   uint32
	ref      SpanRef // of a span
	resource *Resource
	isSpan   bool
}

// flushSize is how much is gathered for one write.
const flushSize = 256 << 10

// A stream is what a recorder asks of its file while it grows.
type stream interface {
	io.Writer
	io.ReaderAt
	Truncate(size int64) error
	Sync() error
}

// newRecorder returns a recorder that writes to f, which is empty.
func newRecorder(f *os.File, o *RecorderOptions) *Recorder {
	r := &Recorder{f: f, w: f, o: o.withDefaults(), known: make(map[string]*Resource), began: time.Now()}
	r.version, r.maxEntry = r.o.Version, r.o.MaxEntrySize
	r.looked = r.began
	r.direct.Store(true)
	return r
}

// begin writes the magic and the root.
func (r *Recorder) begin() error {
	b := AppendTraceEntry(AppendMagic(nil, r.version, IET), r.version, Root())
	n, err := r.w.Write(b)
	r.size, r.next = int64(n), 1
	r.tail.add(b)
	r.index.add(len(b)-MagicSize, 0, 0)
	r.stats.Entries = Counts{Offered: 1, Written: 1}
	if r.o.Tee != nil {
		r.o.Tee.Begin(r.version)
	}
	return err
}

// Discard returns a recorder that takes everything and drops it, without
// counting and without error. Close does nothing.
func Discard() *Recorder {
	return newRecorder(nil, &RecorderOptions{})
}

// Discards reports whether everything that r takes is dropped, so that a caller
// may save itself the work. A nil Recorder discards, too: that of a Create that
// failed.
func (r *Recorder) Discards() bool { return r == nil || r.slot == nil }

// Path returns the file that Close leaves, "" for [Discard].
func (r *Recorder) Path() string { return r.final }

// StreamPath returns the IET file that is written now, "" for [Discard].
func (r *Recorder) StreamPath() string { return r.stream }

// Version returns the disk version that is written.
func (r *Recorder) Version() Version { return r.version }

// Durability returns what records survive, and why that is not what was asked
// for, if it is not.
func (r *Recorder) Durability() (Durability, error) {
	if r.Discards() || r.ring != nil && r.ring.o.Path == "" {
		return DurabilityBuffered, nil
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.o.Durability == DurabilityProcess && r.fallback != nil {
		return DurabilityWriteThrough, r.fallback
	}
	return r.o.Durability, nil
}

// unlock unlocks r.mu and then says what went wrong meanwhile.
func (r *Recorder) unlock() { r.unlocked()() }

// unlocked unlocks r.mu and returns what says what went wrong meanwhile.
func (r *Recorder) unlocked() (tell func()) {
	err := r.reports
	r.reports = nil
	r.mu.Unlock()
	if err == nil || r.o.OnError == nil {
		return func() {}
	}
	return func() {
		defer func() { _ = recover() }() // it must not take the application along
		r.o.OnError(err)
	}
}

// failed notes an error that costs entries, or delays them.
func (r *Recorder) failed(err error) {
	r.err = err
	if !r.failing {
		r.failing, r.reports = true, err
	}
}

// Stats returns the account as it is now.
func (r *Recorder) Stats() Stats {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.account()
}

func (r *Recorder) account() Stats {
	s := r.stats
	s.Bytes = r.size
	s.Entries.Waiting, s.Spans.Waiting = uint64(r.waiting.entries), uint64(r.waiting.spans)
	for i := range r.staged {
		s.Entries.Waiting++
		if r.staged[i].isSpan {
			s.Spans.Waiting++
		}
	}
	for i := range r.stripes {
		st := &r.stripes[i]
		st.mu.Lock()
		st.account(&s)
		st.mu.Unlock()
	}
	if r.ring != nil { // what it has taken is where it belongs
		s.Entries.Written, s.Entries.Waiting = s.Entries.Waiting, 0
		s.Spans.Written, s.Spans.Waiting = s.Spans.Waiting, 0
		return s
	}
	s.Entries.Waiting -= r.drained.Entries.Offered
	s.Spans.Waiting -= r.drained.Spans.Offered
	return s
}

// Err returns the last error that cost entries, else [ErrUnlinked] while the file
// has lost its name, else nil. Nothing
// needs to be done about it: the recorder tries again, unless the file cannot
// even be cut back to its whole entries, and Stats counts what was lost.
func (r *Recorder) Err() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	return cmp.Or(r.err, r.unlinked)
}

// takeDirect writes records of b to the file itself.
func (r *Recorder) takeDirect(b *Batch, ops []op) error {
	r.mu.Lock()
	var errs joined
	var behind error // what came before cannot be written, so this cannot
	r.adopt()
	if !r.closed && r.pool != nil {
		behind = r.drain()
	}
	r.holds = r.pool != nil
	for i := range ops {
		o := &ops[i]
		err := b.errOf(o)
		switch {
		case r.closed:
			err = ErrClosed
		case behind != nil && err == nil:
			err = behind
		}
		r.stats.Entries.Offered += uint64(o.entries)
		r.stats.Spans.Offered += o.spans()
		if err == nil {
			err = r.applyNow(b.buf[o.start:o.end], o)
		} else {
			r.drop(err, uint64(o.entries), o.spans())
		}
		errs.add(err)
	}
	r.holds = false
	if behind == nil && !r.closed {
		if err := r.flush(); err != nil {
			r.unstage(0, err)
			errs.errs, errs.refused = append(errs.errs, err), len(ops)
		} else {
			for _, ref := range r.held {
				_ = r.release(ref) // kept and counted
			}
		}
		r.letGo()
		r.checkpoint()
		r.rotateIfDue()
	}
	r.held = r.held[:0]
	r.setTimer()
	ticket := r.sync.ticket()
	r.unlock()
	if r.o.Durability == DurabilityPower && errs.refused < len(ops) {
		if err := r.syncUpTo(ticket); err != nil {
			errs.errs, errs.refused = append(errs.errs, err), len(ops)
		}
	}
	return errs.err()
}

// applyNow applies a record that no buffer holds.
func (r *Recorder) applyNow(data []byte, o *op) error {
	var rec record
	if !rec.parse(data[8:]) {
		r.drop(ErrTooLarge, uint64(o.entries), o.spans())
		return ErrTooLarge
	}
	if r.ledger.file != nil && len(data) > maxParked || r.o.Durability == DurabilityPower {
		rec.flags &^= flagWait // what waits would not be safe
	}
	return r.apply(&rec, data[8:])
}

// Append writes e below the entry e.Parent and returns its id, once what came
// before is written. Text that is not valid UTF-8 is made so: a String becomes
// Bytes, all else gets U+FFFD. In a recording that rotates, ids hold for one file
// only: the parent must be the root. That of a [Ring] takes none below another one
// either, and returns the id 0.
func (r *Recorder) Append(e *TraceEntry) (uint32, error) {
	if r.Discards() {
		return 0, nil
	}
	if r.ring != nil {
		return 0, r.ring.append(e)
	}
	b := r.Batch()
	defer b.release()
	b.Entry(e)
	b.seal(opLog, 0, 0, 0)
	o := &b.ops[0]
	r.mu.Lock()
	defer r.unlock()
	r.stats.Entries.Offered++
	err := b.errOf(o)
	if r.closed {
		err = ErrClosed
	}
	if err == nil {
		err = r.drain()
	}
	if err == nil && (uint64(e.Parent) >= r.next || e.Parent > 0 && r.rotates()) {
		err = ErrBadParent
	}
	var id uint32
	if err == nil {
		var rec record
		rec.parse(b.buf[o.start+8 : o.end])
		body, head, _, _ := nextBody(rec.bodies)
		id, err = r.stage(body, head, e.Parent, nil)
	}
	if err != nil {
		r.drop(err, 1, 0)
		return 0, err
	}
	if err := r.flush(); err != nil {
		r.unstage(len(r.staged)-1, err)
		return 0, err
	}
	r.checkpoint()
	return id, nil
}

// Resource writes the entry of a resource below the root and returns it. Equal
// entries are written once. Log records without a span go below the latest.
func (r *Recorder) Resource(e *TraceEntry) (*Resource, error) {
	if r.Discards() {
		return &Resource{owner: r}, nil
	}
	b := r.Batch()
	defer b.release()
	b.Entry(e)
	b.seal(opLog, 0, 0, 0)
	o := &b.ops[0]
	if err := b.errOf(o); err != nil {
		return nil, err
	}
	var rec record
	rec.parse(b.buf[o.start+8 : o.end])
	body, head, _, _ := nextBody(rec.bodies)
	r.mu.Lock()
	defer r.unlock()
	if r.closed {
		return &Resource{owner: r}, nil
	}
	res, ok := r.known[string(body)]
	if !ok {
		res = &Resource{owner: r, index: uint32(len(r.all) + 1), body: append([]byte(nil), body...), head: head}
		r.known[string(res.body)] = res
		r.all = append(r.all, res)
	}
	if r.ring != nil {
		switch {
		case !ok:
			r.ring.resource(res)
		case r.latest != res:
			r.ring.latest(res)
		}
		r.latest = res
		return res, nil
	}
	if err := r.drain(); err != nil {
		r.latest = res
		r.ledger.resource(res)
		return res, err
	}
	if res.id != 0 && r.latest == res {
		return res, nil
	}
	r.latest = res
	mark := len(r.staged)
	r.place(res)
	err := r.flush()
	if err != nil {
		r.unstage(mark, err)
	}
	r.ledger.resource(res)
	r.checkpoint()
	return res, err
}

// letGo writes spans that wait until no bound is exceeded.
func (r *Recorder) letGo() {
	for r.waiting.spans > r.o.MaxWaitingSpans || r.waiting.bytes > r.o.MaxWaitingBytes {
		r.writeFirst()
	}
	if r.waiting.oldest != nil {
		now := time.Now()
		for s := r.waiting.oldest; s != nil && now.Sub(s.since) >= r.o.MaxWaitingAge; s = r.waiting.oldest {
			r.writeFirst()
		}
	}
	if err := r.flush(); err != nil && r.pool == nil {
		r.unstage(0, err)
	}
}

// writeFirst writes the top of what the oldest waiting span waits for, and then
// all that waits for that.
func (r *Recorder) writeFirst() {
	s := r.waiting.first()
	if err := r.putWaiting(s); err == nil {
		_ = r.release(s.ref) // kept and counted
	}
}

// setTimer sets the timer for the next thing that has to be done in time.
func (r *Recorder) setTimer() {
	if r.closed {
		return
	}
	next := time.Duration(-1)
	least := func(d time.Duration) {
		if d = max(d, drainAfter); next < 0 || d < next {
			next = d
		}
	}
	if s := r.waiting.oldest; s != nil {
		least(time.Until(s.since.Add(r.o.MaxWaitingAge)))
	}
	if r.o.MaxFileAge > 0 {
		d := max(time.Until(r.began.Add(r.o.MaxFileAge)), time.Until(r.notBefore))
		if r.next < r.first+minFileEntries {
			d = max(d, lookEvery) // it waits for more
		}
		least(d)
	}
	if len(r.out) > 0 || r.armed.Load() {
		least(drainAfter)
	}
	if next >= 0 {
		r.timer.Reset(next)
		if next > drainAfter && r.armed.Load() { // meanwhile
			r.timer.Reset(drainAfter)
		}
	}
}

// stage encodes an entry below parent into out and gives it an id.
func (r *Recorder) stage(body []byte, head int, parent uint32, marks []mark) (uint32, error) {
	if r.dead != nil {
		return 0, r.dead
	}
	if r.next > math.MaxUint32 {
		r.failed(ErrFull)
		return 0, ErrFull
	}
	id := uint32(r.next)
	if len(marks) == 0 {
		r.out = appendBelow(r.out, parent, body)
	} else {
		r.out = appendMarked(r.out, r.version, parent, body, head, marks)
	}
	r.next++
	r.staged = append(r.staged, staged{end: len(r.out), id: id, parent: parent})
	return id, nil
}

// flush writes what is staged. After a failed write what is not wholly in the
// file stays staged, and the file ends at an entry's end, always.
func (r *Recorder) flush() error {
	if len(r.out) == 0 {
		return r.dead
	}
	if r.dead != nil {
		return r.dead
	}
	n, err := r.w.Write(r.out)
	kept := len(r.staged)
	if err != nil {
		kept = 0
		for kept < len(r.staged) && r.staged[kept].end <= n {
			kept++
		}
	}
	from := 0
	for i := range r.staged[:kept] {
		s := &r.staged[i]
		r.stats.Entries.Written++
		if s.isSpan {
			r.stats.Spans.Written++
		}
		r.index.add(s.end-from, s.id, s.parent)
		from = s.end
	}
	r.size += int64(from)
	r.tail.add(r.out[:from])
	r.teed(kept)
	if err == nil {
		r.failing = false
		r.out, r.staged = r.out[:0], r.staged[:0]
		if cap(r.out) > maxKeep {
			r.out = nil
		}
		return nil
	}
	rest := copy(r.out, r.out[from:])
	r.out = r.out[:rest]
	r.staged = r.staged[:copy(r.staged, r.staged[kept:])]
	for i := range r.staged {
		r.staged[i].end -= from
	}
	if n > from || n < 0 {
		if terr := r.w.Truncate(r.size); terr != nil {
			// Bytes behind a part of an entry could never be read again.
			r.dead = fmt.Errorf("record to %s: %w", r.stream, errors.Join(err, terr))
			r.failed(r.dead)
			return r.dead
		}
	}
	err = fmt.Errorf("record to %s: %w", r.stream, err)
	r.failed(err)
	return err
}

// unstage drops what is staged from the entry mark on.
func (r *Recorder) unstage(mark int, err error) {
	if mark >= len(r.staged) {
		return
	}
	for i := mark; i < len(r.staged); i++ {
		s := &r.staged[i]
		spans := uint64(0)
		if s.isSpan {
			r.spans.drop(s.ref, s.id)
			spans = 1
		}
		if s.resource != nil {
			s.resource.id = 0
		}
		r.drop(err, 1, spans)
	}
	r.next = uint64(r.staged[mark].id)
	end := 0
	if mark > 0 {
		end = r.staged[mark-1].end
	}
	r.out, r.staged = r.out[:end], r.staged[:mark]
}

// drop counts what is lost to err.
func (r *Recorder) drop(err error, entries, spans uint64) {
	n := r.stats.Entries.Dropped.reason(err)
	if *n += entries; n == &r.stats.Entries.Dropped.IO || n == &r.stats.Entries.Dropped.Full {
		r.failed(err) // the others are their caller's, who was told
	}
	*r.stats.Spans.Dropped.reason(err) += spans
}

// Flush writes what was recorded so far to the file, so that other processes can
// read it there, but for spans that wait for their parents.
func (r *Recorder) Flush() error {
	if r.Discards() {
		return nil
	}
	r.mu.Lock()
	defer r.unlock()
	if r.closed {
		return ErrClosed
	}
	if r.ring != nil {
		return nil
	}
	return r.drain()
}

// TimeValue returns t as attributes hold it: nanoseconds since 1970, a U64, or an
// I64 before then. Times that 64 bits cannot hold become the nearest they can.
func TimeValue(t time.Time) Value {
	s := t.Unix()
	switch {
	case s <= math.MinInt64/1_000_000_000:
		return I64Value(math.MinInt64 + 1) // the least is no time in a View
	case s < 0:
		return I64Value(t.UnixNano())
	case s > math.MaxUint64/1_000_000_000-1:
		return U64Value(math.MaxUint64)
	}
	return U64Value(uint64(s)*1_000_000_000 + uint64(t.Nanosecond()))
}
