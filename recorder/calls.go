package recorder

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/entrace-go/entrace/format"
	"github.com/entrace-go/entrace/internal/core/journal"
	"github.com/entrace-go/entrace/internal/core/mapping"
	"github.com/entrace-go/entrace/internal/core/record"
)

// published is the state of the writer that other goroutines can read.
type published struct {
	written    [2]uint64  // entries, spans
	dropped    [2]Dropped // entries, spans; dropped by the writer
	extra      [2]uint64  // entries, spans; not counted in any record
	previous   [2]uint64  // entries, spans; appended to journals before the live one
	bytes      int64
	files      int
	err        error // the last error that made the recorder lose entries
	failing    bool  // OnError has been called for err, and no write has succeeded since
	unlinked   error
	flushes    uint64 // number of writes, including those that failed
	flushErr   error  // the error of the last write
	durability Durability
	fallback   error // why durability differs from Options.Durability
}

// lose counts entries and spans that were counted as written as dropped instead.
func (p *published) lose(entries, spans int) {
	for i, n := range [...]int{entries, spans} {
		p.written[i] -= uint64(n)
		p.dropped[i].IO += uint64(n)
	}
}

// A request is a function that the writer runs.
type request struct {
	fn   func(*writer) error
	done chan error // capacity 1
}

// droppedCalls counts the entries and spans that calls could not append, by reason. It also has the time in which calls
// or the writer lost entries.
type droppedCalls struct {
	mu sync.Mutex

	entries, spans Dropped
	from, to       time.Time // when the first and the last entry was lost because the disk was full or slow; zero: none
}

func (d *droppedCalls) add(err error, entries, spans int) {
	d.mu.Lock()
	n := d.entries.reason(err)
	*n += uint64(entries)
	*d.spans.reason(err) += uint64(spans)
	d.mu.Unlock()
	if n == &d.entries.IO || n == &d.entries.Full || n == &d.entries.Overflow {
		d.lostNow()
	}
}

// lostNow notes that a call or the writer has just lost an entry.
func (d *droppedCalls) lostNow() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.to = time.Now()
	if d.from.IsZero() {
		d.from = d.to
	}
}

// describe adds to the entry of a clean end when entries were lost.
func (d *droppedCalls) describe(end *format.TraceEntry) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if !d.from.IsZero() {
		end.Add(mapping.AttrDroppedFrom, format.StringValue(d.from.UTC().Format(time.RFC3339Nano)))
		end.Add(mapping.AttrDroppedTo, format.StringValue(d.to.UTC().Format(time.RFC3339Nano)))
	}
}

const (
	// writeAfter is how long records wait in the journal before the writer begins to write.
	writeAfter = 100 * time.Millisecond
	// flushSize is how many bytes the writer collects for one write.
	flushSize = 256 << 10
)

// NewHint implements target.
func (w *writer) NewHint() journal.Hint { return w.live.Load().NewHint() }

// Waits implements target.
func (w *writer) Waits() bool { return w.wait.Load() }

// Put implements target.
func (w *writer) Put(r *journal.Record, hint *journal.Hint, _ *record.LogEvent) error {
	soon, err := w.live.Load().Append(r, hint)
	if err != nil {
		return w.putLater(r, hint, err)
	}
	switch {
	case soon:
		w.now()
	case w.wait.Load(): // do not wake the writer: the caller calls Wait after its last record
	case !w.armed.Load() && !w.armed.Swap(true):
		w.wakeUp()
	}
	return nil
}

// now makes the writer write at once, without waiting for the timer.
func (w *writer) now() {
	if !w.urgent.Load() && !w.urgent.Swap(true) {
		w.wakeUp()
	}
}

func (w *writer) wakeUp() {
	select {
	case w.wake <- struct{}{}:
	default:
	}
}

// putLater tries again to append a record that found no room, for at most MaxBlock. If it gives up, it
// counts the record as dropped, and other calls do not wait until the writer has written something again.
func (w *writer) putLater(r *journal.Record, hint *journal.Hint, err error) error {
	const shortestPause, longestPause = 100 * time.Microsecond, 5 * time.Millisecond
	w.waiting.Add(1)
	defer w.waiting.Add(-1)
	flushes, _ := w.flushed()
	pause := shortestPause
	for start := time.Now(); ; {
		j := w.live.Load()
		switch {
		case errors.Is(err, journal.ErrTooLarge):
			return w.refuse(format.ErrTooLarge, r)
		case w.closed.Load():
			return w.refuse(ErrClosed, r)
		case w.goneErr() != nil:
			w.now() // the writer tries again to make a new file
			return w.refuse(cmp.Or(w.goneErr(), ErrUnlinked), r)
		case errors.Is(err, journal.ErrFull), errors.Is(err, journal.ErrBusy), errors.Is(err, journal.ErrClosed):
		default: // the file of the journal failed
			cause := err // err changes below while the writer reads the copy
			w.broken.CompareAndSwap(nil, &cause)
		}
		w.now()
		longest, patient := w.o.MaxBlock, w.patient.Load() && !w.stuck.Load()
		if patient {
			longest = max(longest, patience)
		}
		late := time.Since(start) >= longest
		if now, ferr := w.flushed(); ferr != nil && (now != flushes || w.stuck.Load()) && (late || !patient) {
			w.setStuck(true)
			return w.refuse(ferr, r) // for example, the disk is full
		}
		waited := errors.Is(err, journal.ErrBusy) // Append has already waited for its shard for the longest allowed time
		if late || !patient && (w.stuck.Load() || waited) {
			err := w.overflow()
			w.setStuck(true)
			w.failed(err)
			return w.refuse(err, r)
		}
		if j == w.live.Load() {
			time.Sleep(pause)
			pause = min(2*pause, longestPause)
		}
		_, err = w.live.Load().Append(r, hint)
		if err == nil {
			w.now()
			return nil
		}
	}
}

// goneErr returns the error for calls if the file was removed and a new file cannot be made, else nil.
func (w *writer) goneErr() error {
	if gone := w.gone.Load(); gone != nil {
		return *gone
	}
	return nil
}

// setStuck sets whether calls give up at once instead of waiting for the writer. It is set after a call has
// waited without success.
func (w *writer) setStuck(on bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.stuck.Store(on)
	w.live.Load().SetHurry(on)
}

// flushed returns the number of writes so far, and the error of the last write.
func (w *writer) flushed() (n uint64, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.published.flushes, w.published.flushErr
}

// refuse counts a record as dropped and returns err.
func (w *writer) refuse(err error, r *journal.Record) error {
	w.Drop(err, r.Info.Entries(), r.Info.Spans())
	return err
}

// Drop implements target.
func (w *writer) Drop(err error, entries, spans int) { w.dropped.add(err, entries, spans) }

// failed stores an error because of which entries are lost or late. If no error was stored since the last
// successful write, it also reports the error.
func (w *writer) failed(err error) {
	w.mu.Lock()
	first := !w.published.failing
	w.published.err, w.published.failing = err, true
	w.mu.Unlock()
	if first {
		w.report(err)
	}
}

// report calls OnError on the goroutine for callbacks.
func (w *writer) report(err error) {
	if w.o.OnError != nil {
		w.callbacks.post("OnError", 0, func() { w.o.OnError(err) })
	}
}

// notice calls OnNotice on the goroutine for callbacks.
func (w *writer) notice(text string) {
	if w.o.OnNotice != nil {
		w.callbacks.post("OnNotice", 0, func() { w.o.OnNotice(text) })
	}
}

// Stats implements target.
func (w *writer) Stats() Stats {
	w.mu.Lock()
	p := w.published
	entries, spans := w.live.Load().Appended()
	w.mu.Unlock()
	w.dropped.mu.Lock()
	de, ds := w.dropped.entries, w.dropped.spans
	w.dropped.mu.Unlock()
	count := func(appended, previous, extra, written uint64, byWriter, byCalls Dropped) Counts {
		c := Counts{Offered: appended + previous + extra + byCalls.Total(), Written: written, Dropped: byWriter}
		c.Dropped.add(&byCalls)
		c.Waiting = c.Offered - c.Written - c.Dropped.Total()
		return c
	}
	return Stats{
		Entries: count(entries, p.previous[0], p.extra[0], p.written[0], p.dropped[0], de),
		Spans:   count(spans, p.previous[1], p.extra[1], p.written[1], p.dropped[1], ds),
		Bytes:   p.bytes, Files: p.files,
	}
}

// Err implements target.
func (w *writer) Err() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	return cmp.Or(w.published.err, w.published.unlinked)
}

// Durability implements target.
func (w *writer) Durability() (Durability, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if err := w.goneErr(); err != nil {
		return DurabilityNone, err
	}
	return w.published.durability, w.published.fallback
}

// ask makes the goroutine of the writer run fn, and returns the error of fn or of ctx.
func (w *writer) ask(ctx context.Context, fn func(*writer) error) error {
	q, err := w.send(ctx, fn)
	if err != nil {
		return err
	}
	return q.wait(ctx)
}

// send passes fn to the goroutine of the writer and does not wait for its result.
func (w *writer) send(ctx context.Context, fn func(*writer) error) (*request, error) {
	if err := ctx.Err(); err != nil {
		return nil, err // select below chooses at random between ready cases
	}
	q := &request{fn, make(chan error, 1)}
	select {
	case w.requests <- q:
		return q, nil
	case <-w.ended:
		return nil, ErrClosed
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// wait returns the error of the request's function, or of ctx.
func (q *request) wait(ctx context.Context) error {
	select {
	case err := <-q.done:
		return err
	case <-ctx.Done():
	}
	select {
	case err := <-q.done: // done and ctx were ready at the same time
		return err
	default:
		return ctx.Err()
	}
}

// Flush implements target.
func (w *writer) Flush(ctx context.Context) error {
	if w.closed.Load() {
		return ErrClosed
	}
	return w.ask(ctx, func(w *writer) error { return cmp.Or(w.write(), w.goneErr()) })
}

// anchorWait is the minimum of the time for which the first entry of a flight recorder's trace waits for
// the file. No call of the application waits for this entry. If the entry cannot be written, there is no
// trace.
const anchorWait = 10 * time.Second

// Append implements target.
func (w *writer) Append(r *journal.Record, parent uint32, anchor bool) (id uint32, err error) {
	most := w.o.MaxBlock
	if anchor {
		most = max(most, anchorWait)
	}
	ctx, cancel := context.WithTimeout(context.Background(), most)
	defer cancel()
	e := journal.Entry{Time: r.Time, Info: r.Info, Data: append([]byte(nil), r.Data[journal.HeadSize:]...)}
	var n atomic.Uint32
	q, err := w.send(ctx, func(w *writer) error {
		id, err := w.append(&e, parent, anchor)
		n.Store(id)
		return err
	})
	switch {
	case err == nil:
		err = q.wait(ctx)
		if errors.Is(err, context.DeadlineExceeded) {
			return 0, ErrOverflow // the writer may still write the entry, and counts it then
		}
	case errors.Is(err, ErrClosed):
		w.Drop(err, 1, 0)
	default:
		err = ErrOverflow
		w.Drop(err, 1, 0)
	}
	return n.Load(), err
}

// Wait implements target.
func (w *writer) Wait() error {
	n, most := w.rounds.next(), w.o.MaxBlock
	switch {
	case w.stuck.Load():
		most = min(most, shortWait)
	case w.patient.Load():
		most = max(most, patience)
	}
	w.now()
	err := w.rounds.wait(n, most)
	if errors.Is(err, ErrOverflow) {
		w.setStuck(true)
	}
	return err
}

// shortWait is how long a call waits for a round while the disk does not respond.
const shortWait = time.Millisecond

// rounds numbers the writes of the writer. A call waits for the end of a round that begins after its
// records were appended, and gets the error of that write.
type rounds struct {
	mu sync.Mutex

	begun, ended uint64
	err          error         // the error of the last round that ended
	woken        chan struct{} // closed when a round has ended or roundTick has passed; nil: nobody waits
	ticks        bool          // the timer of roundTick is running
}

// next returns the number of the next round, which writes everything that was appended before this call.
func (r *rounds) next() uint64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.begun + 1
}

// begin begins a round. After begin, the caller reads the journal.
func (r *rounds) begin() {
	r.mu.Lock()
	r.begun++
	r.mu.Unlock()
}

// end ends the rounds that have begun, and all rounds up to the number n.
func (r *rounds) end(n uint64, err error) {
	r.mu.Lock()
	r.ended, r.err = max(n, r.begun, r.ended), err
	r.wake()
	r.mu.Unlock()
}

// wake wakes all calls of wait. The caller holds r.mu.
func (r *rounds) wake() {
	if r.woken != nil {
		close(r.woken)
		r.woken = nil
	}
}

// roundTick is how often waiting calls check the time. They share one timer, because a
// timer for each call would cost more than the rest of the call.
const roundTick = time.Millisecond

// wait returns the error of round n when it has ended, or [ErrOverflow] after the time most.
func (r *rounds) wait(n uint64, most time.Duration) error {
	var start time.Time
	for {
		r.mu.Lock()
		if r.ended >= n {
			err := r.err
			r.mu.Unlock()
			return err
		}
		if r.woken == nil {
			r.woken = make(chan struct{})
		}
		woken := r.woken
		if !r.ticks {
			r.ticks = true
			time.AfterFunc(roundTick, r.tick)
		}
		r.mu.Unlock()
		switch {
		case start.IsZero():
			start = time.Now()
		case time.Since(start) >= most:
			return fmt.Errorf("%w: the record is not saved yet", ErrOverflow)
		}
		<-woken
	}
}

func (r *rounds) tick() {
	r.mu.Lock()
	r.ticks = false
	r.wake()
	r.mu.Unlock()
}

// work measures which part of its working time the writer spends in calls of files. Older times have less
// weight.
type work struct {
	since atomic.Int64 // when the running call of a file began, in nanoseconds since 1970; 0: no call is running
	files atomic.Int64 // nanoseconds spent in calls of files
	total atomic.Int64 // nanoseconds of work, including the time in calls of files
}

// end adds the time since begun to the total. A round of work began at that time.
func (k *work) end(begun time.Time) {
	k.total.Add(int64(time.Since(begun)))
	if k.total.Load() > int64(time.Second) {
		k.total.Store(k.total.Load() / 2)
		k.files.Store(k.files.Load() / 2)
	}
}

// disk calls fn, which writes or syncs a file, and measures how long fn takes.
func (k *work) disk(fn func() error) error {
	begun := time.Now()
	k.since.Store(begun.UnixNano())
	err := fn()
	k.since.Store(0)
	k.files.Add(int64(time.Since(begun)))
	return err
}

// standing returns how long the running call of a file has lasted, 0 if no call is running.
func (k *work) standing() time.Duration {
	if since := k.since.Load(); since != 0 {
		return time.Duration(time.Now().UnixNano() - since)
	}
	return 0
}
