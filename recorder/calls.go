package recorder

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/entrace-go/entrace/format"
	"github.com/entrace-go/entrace/internal/core/journal"
	"github.com/entrace-go/entrace/internal/core/record"
)

// An intake takes the records of calls. Calls and the goroutine of the writer use it without a lock.
type intake struct {
	account

	wake     chan struct{}
	requests chan *request
	ended    chan struct{} // closed when the writer is gone

	live    atomic.Pointer[journal.Journal] // the journal to which calls append
	wait    atomic.Bool                     // calls wait for the file
	closed  atomic.Bool
	stuck   atomic.Bool           // a call found no room, and nothing has been written since
	broken  atomic.Pointer[error] // why the journal cannot be appended to
	gone    atomic.Pointer[error] // not nil: the file was removed and a new one cannot be made, so calls return this error
	armed   atomic.Bool           // the goroutine has been woken for the appended records
	urgent  atomic.Bool           // the goroutine must write at once
	due     atomic.Bool           // the timer has fired
	closing atomic.Pointer[closing]
	waiting atomic.Int32 // number of calls in putLater

	patient   atomic.Bool   // calls that find no room wait for the time patience, not for MaxBlock
	admitting chan struct{} // holds one item while a request waits for room
	reserved  atomic.Int64  // number of segments that admit has reserved

	rounds rounds // writes for which calls wait
	work   work   // working time of the goroutine
}

// A request is a function that the writer runs.
type request struct {
	fn   func(*writer) error
	done chan error // capacity 1
}

// closing is the request of Close to the writer.
type closing struct {
	ctx  context.Context
	done chan error // capacity 1
}

const (
	// writeAfter is how long records wait in the journal before the writer begins to write.
	writeAfter = 100 * time.Millisecond
	// flushSize is how many bytes the writer collects for one write.
	flushSize = 256 << 10
)

// NewHint implements target.
func (in *intake) NewHint() journal.Hint { return in.live.Load().NewHint() }

// Waits implements target.
func (in *intake) Waits() bool { return in.wait.Load() }

// Put implements target.
func (in *intake) Put(r *journal.Record, hint *journal.Hint, _ *record.Event) error {
	soon, err := in.live.Load().Append(r, hint)
	if err != nil {
		return in.putLater(r, hint, err)
	}
	switch {
	case soon:
		in.now()
	case in.wait.Load(): // do not wake the writer: the caller calls Wait after its last record
	case !in.armed.Load() && !in.armed.Swap(true):
		in.wakeUp()
	}
	return nil
}

// now makes the writer write at once, without waiting for the timer.
func (in *intake) now() {
	if !in.urgent.Load() && !in.urgent.Swap(true) {
		in.wakeUp()
	}
}

func (in *intake) wakeUp() {
	select {
	case in.wake <- struct{}{}:
	default:
	}
}

// putLater tries again to append a record that found no room, for at most MaxBlock. If it gives up, it
// counts the record as dropped, and other calls do not wait until the writer has written something again.
func (in *intake) putLater(r *journal.Record, hint *journal.Hint, err error) error {
	const shortestPause, longestPause = 100 * time.Microsecond, 5 * time.Millisecond
	in.waiting.Add(1)
	defer in.waiting.Add(-1)
	flushes, _ := in.flushed()
	pause := shortestPause
	for start := time.Now(); ; {
		j := in.live.Load()
		switch {
		case errors.Is(err, journal.ErrTooLarge):
			return in.refuse(format.ErrTooLarge, r)
		case in.closed.Load():
			return in.refuse(ErrClosed, r)
		case in.goneErr() != nil:
			in.now() // the writer tries again to make a new file
			return in.refuse(cmp.Or(in.goneErr(), ErrUnlinked), r)
		case errors.Is(err, journal.ErrFull), errors.Is(err, journal.ErrBusy), errors.Is(err, journal.ErrClosed):
		default: // the file of the journal failed
			cause := err // err changes below while the writer reads the copy
			in.broken.CompareAndSwap(nil, &cause)
		}
		in.now()
		longest, patient := in.o.MaxBlock, in.patient.Load() && !in.stuck.Load()
		if patient {
			longest = max(longest, patience)
		}
		late := time.Since(start) >= longest
		if now, ferr := in.flushed(); ferr != nil && (now != flushes || in.stuck.Load()) && (late || !patient) {
			in.setStuck(true)
			in.failed(ferr) // for example, the disk is full
			return in.refuse(ferr, r)
		}
		waited := errors.Is(err, journal.ErrBusy) // Append has already waited for its shard for the longest allowed time
		if late || !patient && (in.stuck.Load() || waited) {
			err := in.overflow()
			in.setStuck(true)
			in.failed(err)
			return in.refuse(err, r)
		}
		if j == in.live.Load() {
			time.Sleep(pause)
			pause = min(2*pause, longestPause)
		}
		_, err = in.live.Load().Append(r, hint)
		if err == nil {
			in.now()
			return nil
		}
	}
}

// patience is how long the calls of an admitted request wait for room. It is long because a sender cannot send a part
// of a request again.
const patience = 8 * time.Second

// goneErr returns the error for calls if the file was removed and a new file cannot be made, else nil.
func (in *intake) goneErr() error {
	if gone := in.gone.Load(); gone != nil {
		return *gone
	}
	return nil
}

// setStuck sets whether calls give up at once instead of waiting for the writer. It is set after a call has
// waited without success.
func (in *intake) setStuck(on bool) {
	in.mu.Lock()
	defer in.mu.Unlock()
	in.stuck.Store(on)
	in.live.Load().SetHurry(on)
}

// refuse counts a record as dropped and returns err.
func (in *intake) refuse(err error, r *journal.Record) error {
	in.Drop(err, r.Info.Entries(), r.Info.Spans())
	return err
}

// overflow returns an ErrOverflow that says whether the disk or the CPU is too slow.
func (in *intake) overflow() error {
	if since := in.work.standing(); since >= in.o.MaxBlock/2 {
		return fmt.Errorf("%w: the disk has not responded for %v", ErrOverflow, since.Round(time.Millisecond))
	}
	if 2*in.work.files.Load() > in.work.total.Load() { // most of the working time is spent in calls of files
		return fmt.Errorf("%w: the disk does not keep up", ErrOverflow)
	}
	return fmt.Errorf("%w: the CPU does not keep up", ErrOverflow)
}

// Drop implements target.
func (in *intake) Drop(err error, entries, spans int) { in.dropped.add(err, entries, spans) }

// Stats implements target.
func (in *intake) Stats() Stats {
	in.mu.Lock()
	p := in.published
	entries, spans := in.live.Load().Appended()
	in.mu.Unlock()
	in.dropped.mu.Lock()
	de, ds := in.dropped.entries, in.dropped.spans
	in.dropped.mu.Unlock()
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

// Durability implements target.
func (in *intake) Durability() (Durability, error) {
	in.mu.Lock()
	defer in.mu.Unlock()
	if err := in.goneErr(); err != nil {
		return DurabilityNone, err
	}
	return in.published.durability, in.published.fallback
}

// ask makes the goroutine of the writer run fn, and returns the error of fn or of ctx.
func (in *intake) ask(ctx context.Context, fn func(*writer) error) error {
	q, err := in.send(ctx, fn)
	if err != nil {
		return err
	}
	return q.wait(ctx)
}

// send passes fn to the goroutine of the writer and does not wait for its result.
func (in *intake) send(ctx context.Context, fn func(*writer) error) (*request, error) {
	if err := ctx.Err(); err != nil {
		return nil, err // select below chooses at random between ready cases
	}
	q := &request{fn, make(chan error, 1)}
	select {
	case in.requests <- q:
		return q, nil
	case <-in.ended:
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
func (in *intake) Flush(ctx context.Context) error {
	if in.closed.Load() {
		return ErrClosed
	}
	return in.ask(ctx, func(w *writer) error { return cmp.Or(w.write(), w.goneErr()) })
}

// anchorWait is the shortest time that the first entry of a flight recorder's trace waits for the file.
// No call of the application waits for this entry. If the entry cannot be written, there is no trace.
const anchorWait = 10 * time.Second

// Append implements target.
func (in *intake) Append(r *journal.Record, parent uint32, anchor bool) (id uint32, err error) {
	most := in.o.MaxBlock
	if anchor {
		most = max(most, anchorWait)
	}
	ctx, cancel := context.WithTimeout(context.Background(), most)
	defer cancel()
	e := journal.Entry{Time: r.Time, Info: r.Info, Data: append([]byte(nil), r.Data[journal.HeadSize:]...)}
	var n atomic.Uint32
	q, err := in.send(ctx, func(w *writer) error {
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
		in.Drop(err, 1, 0)
	default:
		err = ErrOverflow
		in.Drop(err, 1, 0)
	}
	return n.Load(), err
}

// Wait implements target.
func (in *intake) Wait() error {
	n, most := in.rounds.next(), in.o.MaxBlock
	switch {
	case in.stuck.Load():
		most = min(most, shortWait)
	case in.patient.Load():
		most = max(most, patience)
	}
	in.now()
	err := in.rounds.wait(n, most)
	if errors.Is(err, ErrOverflow) {
		in.setStuck(true)
	}
	return err
}

// shortWait is how long a call waits for a round while the disk does not respond.
const shortWait = time.Millisecond
