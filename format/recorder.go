package format

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"sync"
	"time"

	"github.com/entrace-go/entrace/internal/osfile"
)

// RecorderOptions change how a [Recorder] works. The zero value means defaults.
type RecorderOptions struct {
	// Version is the disk version that is written. The default is
	// [DefaultVersion].
	Version Version
	// Format is what Close leaves. By default the name says it: IET for x.iet,
	// else ET.
	Format Optional[StorageFormat]
	// MaxEntrySize is the size in bytes above which an entry is cut and marked
	// with [AttrTruncated]. The default, and the most, is [DefaultMaxEntrySize],
	// 64 MiB; the least is 2 KiB.
	MaxEntrySize int
	// MaxWaitingSpans, MaxWaitingBytes and MaxWaitingAge bound the spans that
	// wait in memory for their parents. A span that goes over a bound is written
	// below the resource, with its parent_span_id. The defaults are 16,384 spans,
	// 64 MiB and one minute.
	MaxWaitingSpans int
	MaxWaitingBytes int
	MaxWaitingAge   time.Duration
}

const (
	defaultWaitingSpans = 16384
	defaultWaitingBytes = 64 << 20
	defaultWaitingAge   = time.Minute
)

// A Recorder writes one trace. It streams an IET file, in which an entry is when
// the call returns that took it, and turns it into an ET file when it is closed.
// Only spans that wait for their parents, see [Span].Wait, come later.
//
// A Recorder is safe for concurrent use.
type Recorder struct {
	version  Version
	maxEntry int
	stream   string // the IET file
	final    string // the file that Close leaves
	slot     *slot  // where Create finds the recorder again; nil: it discards
	refs     int    // guarded by slot.mu

	maxWaitingSpans int
	maxWaitingBytes int
	maxWaitingAge   time.Duration

	batches sync.Pool // of *Batch

	mu sync.Mutex

	f         *os.File
	closed    bool
	dead      error  // the file cannot be written to any more
	err       error  // the last error
	size      int64  // of the file: everything in it is whole
	next      uint64 // id of the next entry
	out       []byte // entries that are staged, to be written at once
	staged    []staged
	spans     spanTable
	waiting   waitingRoom
	timer     *time.Timer // flushes what waited too long
	ready     []*waitingSpan
	latest    *Resource
	resources map[string]*Resource
	stats     Stats
}

// A staged entry is encoded in out, but not in the file yet.
type staged struct {
	end      int // in out
	id       uint32
	ref      SpanRef // of a span
	resource *Resource
	isSpan   bool
}

// minMaxEntrySize leaves a span all that tells where it belongs.
const minMaxEntrySize = 2 << 10

// flushSize is how much is gathered for one write.
const flushSize = 256 << 10

// newRecorder returns a recorder that writes to f, which is empty.
func newRecorder(f *os.File, o *RecorderOptions) *Recorder {
	r := &Recorder{f: f, version: o.Version, maxEntry: o.MaxEntrySize, resources: make(map[string]*Resource)}
	if r.version == 0 {
		r.version = DefaultVersion
	}
	if r.maxEntry <= 0 || r.maxEntry > DefaultMaxEntrySize {
		r.maxEntry = DefaultMaxEntrySize
	}
	r.maxEntry = max(r.maxEntry, minMaxEntrySize)
	r.maxWaitingSpans, r.maxWaitingBytes, r.maxWaitingAge = o.MaxWaitingSpans, o.MaxWaitingBytes, o.MaxWaitingAge
	if r.maxWaitingSpans <= 0 {
		r.maxWaitingSpans = defaultWaitingSpans
	}
	if r.maxWaitingBytes <= 0 {
		r.maxWaitingBytes = defaultWaitingBytes
	}
	if r.maxWaitingAge <= 0 {
		r.maxWaitingAge = defaultWaitingAge
	}
	return r
}

// begin writes the magic and the root.
func (r *Recorder) begin() error {
	b := AppendTraceEntry(AppendMagic(nil, r.version, IET), r.version, Root())
	n, err := r.f.Write(b)
	r.size, r.next = int64(n), 1
	r.stats = Stats{Entries: Counts{Offered: 1, Written: 1}, Bytes: r.size}
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

// Stats returns the account as it is now.
func (r *Recorder) Stats() Stats {
	r.mu.Lock()
	defer r.mu.Unlock()
	s := r.stats
	s.Bytes = r.size
	s.Entries.Waiting, s.Spans.Waiting = uint64(r.waiting.entries), uint64(r.waiting.spans)
	return s
}

// Err returns the last error that cost entries, nil if there was none. Nothing
// needs to be done about it: the recorder tries again with the next entry, unless
// the file cannot even be cut back to its whole entries, and Stats counts what was
// lost.
func (r *Recorder) Err() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.err
}

// Append writes e below the entry e.Parent and returns its id. Text that is not
// valid UTF-8 is made so: a String becomes Bytes, all else gets U+FFFD.
func (r *Recorder) Append(e *TraceEntry) (uint32, error) {
	if r.Discards() {
		return 0, nil
	}
	b := r.Batch()
	defer b.release()
	err := b.add(e)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.offer(1, 0)
	switch {
	case r.closed:
		err = ErrClosed
	case err == nil && uint64(e.Parent) >= r.next:
		err = ErrBadParent
	}
	var id uint32
	if err == nil {
		id, err = r.stage(b.enc.buf, &b.payloads[0], e.Parent, false)
	}
	if err != nil {
		r.drop(err, 1, 0)
		return 0, err
	}
	return id, r.flush()
}

// Resource writes the entry of a resource below the root and returns it. Equal
// entries are written once. Log records without a span go below the latest.
func (r *Recorder) Resource(e *TraceEntry) (*Resource, error) {
	if r.Discards() {
		return &Resource{owner: r}, nil
	}
	b := r.Batch()
	defer b.release()
	if err := b.add(e); err != nil {
		return nil, err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed {
		return &Resource{owner: r}, nil
	}
	res, ok := r.resources[string(b.enc.buf)]
	if !ok {
		res = &Resource{owner: r, buf: append([]byte(nil), b.enc.buf...), payload: b.payloads[0]}
		r.resources[string(res.buf)] = res
	}
	r.latest = res
	r.place(res)
	return res, r.flush()
}

// place returns the id of the entry of res, which it stages if need be.
func (r *Recorder) place(res *Resource) uint32 {
	if res == nil || res.owner != r {
		return 0
	}
	if res.id == 0 {
		r.offer(1, 0)
		id, err := r.stage(res.buf, &res.payload, 0, false)
		if err != nil {
			r.drop(err, 1, 0)
			return 0
		}
		res.id = id
		r.staged[len(r.staged)-1].resource = res
	}
	return res.id
}

// span writes a span and what waited for it, or makes it wait.
func (r *Recorder) span(op *spanOp, buf []byte, payloads []payload) error {
	if op.wait && !op.remote && op.parent.IsValid() && op.parent != op.ref {
		if _, here := r.spans.ids[op.parent]; !here {
			r.wait(op, buf, payloads)
			return nil
		}
	}
	if err := r.put(op, buf, payloads); err != nil {
		return err
	}
	return r.release(op.ref)
}

// put stages a span: below its parent if that is here, else below its resource.
func (r *Recorder) put(op *spanOp, buf []byte, payloads []payload) error {
	slot, below := r.spans.ids[op.parent]
	parent := slot.id
	if !below {
		parent = r.place(op.resource)
	}
	n := uint64(len(payloads))
	id, err := r.stage(buf, &payloads[0], parent, !below || op.parent.TraceID != op.ref.TraceID)
	if err != nil {
		r.drop(err, n, 1)
		return err
	}
	if op.ref.IsValid() {
		r.spans.put(op.ref, id, !op.open)
	}
	last := &r.staged[len(r.staged)-1]
	last.ref, last.isSpan = op.ref, true
	for i := range payloads[1:] {
		if _, err := r.stage(buf, &payloads[1+i], id, false); err != nil {
			r.drop(err, n-1-uint64(i), 0)
			return err
		}
	}
	return nil
}

// release writes what waits for ref, and what waits for that, and so on.
func (r *Recorder) release(ref SpanRef) error {
	var errs error
	r.ready = append(r.ready[:0], r.waiting.children(ref)...)
	for i := 0; i < len(r.ready); i++ {
		s := r.ready[i]
		r.ready[i] = nil
		if err := r.put(&s.op, s.buf, s.payloads); err != nil {
			errs = err
			continue // its children find another place in time
		}
		r.ready = append(r.ready, r.waiting.children(s.op.ref)...)
	}
	return errs
}

// wait keeps a span in memory until its parent comes.
func (r *Recorder) wait(op *spanOp, buf []byte, payloads []payload) {
	from, to := payloads[0].start, payloads[len(payloads)-1].end
	s := &waitingSpan{
		op:       *op,
		buf:      append([]byte(nil), buf[from:to]...),
		payloads: append([]payload(nil), payloads...),
		since:    time.Now(),
	}
	for i := range s.payloads {
		s.payloads[i].move(from)
	}
	r.waiting.add(s)
	if r.timer == nil {
		r.timer = time.AfterFunc(r.maxWaitingAge, r.tooOld)
	}
}

// letGo writes spans that wait until no bound is exceeded.
func (r *Recorder) letGo() {
	for r.waiting.spans > r.maxWaitingSpans || r.waiting.bytes > r.maxWaitingBytes {
		r.writeFirst()
	}
	_ = r.flush() // kept and counted
}

// writeFirst writes the top of what the oldest waiting span waits for, and then
// all that waits for that.
func (r *Recorder) writeFirst() {
	s := r.waiting.first()
	if err := r.put(&s.op, s.buf, s.payloads); err == nil {
		_ = r.release(s.op.ref) // kept and counted
	}
}

// tooOld runs when spans may have waited for too long.
func (r *Recorder) tooOld() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.timer = nil
	if r.closed {
		return
	}
	now := time.Now()
	for s := r.waiting.oldest; s != nil && now.Sub(s.since) >= r.maxWaitingAge; s = r.waiting.oldest {
		r.writeFirst()
	}
	_ = r.flush() // kept and counted
	if s := r.waiting.oldest; s != nil {
		r.timer = time.AfterFunc(r.maxWaitingAge-now.Sub(s.since), r.tooOld)
	}
}

// stage encodes an entry below parent into out and gives it an id.
func (r *Recorder) stage(buf []byte, p *payload, parent uint32, keep bool) (uint32, error) {
	if r.dead != nil {
		return 0, r.dead
	}
	if r.next > math.MaxUint32 {
		r.err = ErrFull
		return 0, ErrFull
	}
	if len(r.out) >= flushSize {
		if err := r.flush(); err != nil {
			return 0, err
		}
	}
	id := uint32(r.next)
	r.next++
	r.out = p.appendTo(r.out, r.version, buf, parent, keep)
	r.staged = append(r.staged, staged{end: len(r.out), id: id})
	return id, nil
}

// flush writes what is staged. After a failed write it takes back what is not
// wholly in the file, which then ends at an entry's end, always.
func (r *Recorder) flush() error {
	if len(r.out) == 0 {
		return nil
	}
	n, err := r.f.Write(r.out)
	kept := len(r.staged)
	if err != nil {
		kept = 0
		for kept < len(r.staged) && r.staged[kept].end <= n {
			kept++
		}
	}
	for i := range r.staged {
		s := &r.staged[i]
		if i < kept {
			r.stats.Entries.Written++
			if s.isSpan {
				r.stats.Spans.Written++
			}
			continue
		}
		if s.isSpan {
			r.spans.drop(s.ref, s.id)
		}
		if s.resource != nil {
			s.resource.id = 0
		}
		spans := uint64(0)
		if s.isSpan {
			spans = 1
		}
		r.drop(err, 1, spans)
	}
	if kept > 0 {
		r.size += int64(r.staged[kept-1].end)
	}
	if kept < len(r.staged) {
		r.next = uint64(r.staged[kept].id)
		if terr := r.f.Truncate(r.size); terr != nil {
			// Bytes behind a part of an entry could never be read again.
			r.dead = fmt.Errorf("record to %s: %w", r.stream, errors.Join(err, terr))
			r.err = r.dead
		}
	}
	if err != nil {
		err = fmt.Errorf("record to %s: %w", r.stream, err)
	}
	clear(r.staged)
	r.out, r.staged = r.out[:0], r.staged[:0]
	if cap(r.out) > maxKeep {
		r.out = nil
	}
	return err
}

// offer counts what comes in.
func (r *Recorder) offer(entries, spans uint64) {
	r.stats.Entries.Offered += entries
	r.stats.Spans.Offered += spans
}

// drop counts what is lost to err.
func (r *Recorder) drop(err error, entries, spans uint64) {
	n := r.stats.Entries.Dropped.reason(err)
	if *n += entries; n == &r.stats.Entries.Dropped.IO || n == &r.stats.Entries.Dropped.Full {
		r.err = err // the others are their caller's, who was told
	}
	*r.stats.Spans.Dropped.reason(err) += spans
}

// Sync makes everything that is in the file, and the file's name, survive a loss
// of power. Spans that wait for their parents are not in the file.
func (r *Recorder) Sync() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.Discards() {
		return nil
	}
	if r.closed {
		return ErrClosed
	}
	return errors.Join(r.f.Sync(), osfile.SyncDir(r.stream))
}

// Close writes what still waits and the entry that marks a clean end, and
// finishes the file. There is to be one Close for each Create that returned this
// recorder: the last one closes it, and more do nothing. Entries that come later
// are dropped and counted. Close also returns the last error that cost entries.
//
// With a context that is done, or as soon as it is, Close leaves a whole IET
// beside the name of the ET and returns the context's error: the next Create on
// that path, or Recover, finishes it. Whatever fails, nothing recorded is lost.
func (r *Recorder) Close(ctx context.Context) error {
	if r.Discards() {
		return nil
	}
	if ctx == nil {
		ctx = context.Background() // a panic halfway would leave the file locked
	}
	r.slot.mu.Lock()
	defer r.slot.mu.Unlock()
	if r.refs == 0 {
		return nil
	}
	if r.refs--; r.refs > 0 {
		return nil
	}
	r.slot.recorder = nil
	return r.finish(ctx)
}

func (r *Recorder) finish(ctx context.Context) error {
	err := r.end()
	if r.final != r.stream {
		if ctx.Err() != nil {
			err = errors.Join(err, fmt.Errorf("%s is left unfinished: %w", r.stream, ctx.Err()))
		} else {
			err = errors.Join(err, finalizeOpen(ctx, r.f, r.stream, r.final, &FinalizeOptions{RemoveSource: true}))
		}
	} else {
		err = errors.Join(err, r.f.Sync())
	}
	if cerr := r.f.Close(); !errors.Is(cerr, os.ErrClosed) {
		err = errors.Join(err, cerr)
	}
	return err
}

// distinct returns err unless it is other.
func distinct(err, other error) error {
	if errors.Is(err, other) {
		return nil
	}
	return err
}

// end writes what is left to write.
func (r *Recorder) end() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.timer != nil {
		r.timer.Stop()
	}
	for r.waiting.oldest != nil {
		r.writeFirst()
	}
	err := r.flush()
	r.offer(1, 0)
	b := r.Batch()
	if aerr := b.add(r.endEntry()); aerr != nil {
		err = errors.Join(err, aerr)
	} else if _, serr := r.stage(b.enc.buf, &b.payloads[0], 0, false); serr != nil {
		r.drop(serr, 1, 0)
	}
	err = errors.Join(err, r.flush())
	r.closed = true
	// A recorder that somebody keeps should keep nothing itself.
	r.spans, r.waiting, r.resources, r.ready, r.out, r.staged = spanTable{}, waitingRoom{}, nil, nil, nil, nil
	return errors.Join(err, distinct(r.err, err))
}

// endEntry is the entry that marks a clean end.
func (r *Recorder) endEntry() *TraceEntry {
	d := r.stats.Entries.Dropped
	e := &TraceEntry{Metadata: Metadata{Name: NameEnd, Level: LevelTrace}}
	e.Attributes = append(e.Attributes,
		Attribute{AttrTime, TimeValue(time.Now())},
		Attribute{"entries", U64Value(r.next)},
		Attribute{"dropped", U64Value(d.Total())},
		Attribute{"dropped.io", U64Value(d.IO)},
		Attribute{"dropped.too_large", U64Value(d.TooLarge)},
		Attribute{"dropped.full", U64Value(d.Full)},
		Attribute{"dropped.invalid", U64Value(d.Invalid)})
	return e
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
