package recorder

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"sync"
	"sync/atomic"
	"time"

	"github.com/entrace-go/entrace/format"
	"github.com/entrace-go/entrace/internal/core/journal"
	"github.com/entrace-go/entrace/internal/core/placer"
	"github.com/entrace-go/entrace/internal/core/record"
	"github.com/entrace-go/entrace/internal/file/osfile"
)

// A writer is the target of a Recorder that writes a file, or passes entries to a Tee. Calls
// append to its journal and return. One goroutine, which runs the method run, reads the records
// from the journal and writes them.
//
// Ownership: The fields of the first group do not change. The fields of the second group are for calls
// and for the goroutine, without a lock. Both also use the fields that mu guards; mu is never held while
// a file is used, so that no call waits for a file. Only the goroutine uses the other fields and the
// methods in this file, journal.go, rotate.go and sink.go.
type writer struct {
	o        *Options // with defaults filled in
	version  format.Version
	intern   *record.Interner
	name     string // name of the IET
	final    string // name of the file that close leaves
	died     bool   // the records come from a process that died: the last entry is NameRecovered
	wake     chan struct{}
	requests chan *request
	ended    chan struct{} // closed when the writer is gone

	live    atomic.Pointer[journal.Journal] // the journal to which calls append
	wait    atomic.Bool                     // calls wait for the file
	closed  atomic.Bool
	stuck   atomic.Bool           // a call found no room, and nothing was written since
	broken  atomic.Pointer[error] // why the journal cannot be appended to
	gone    atomic.Pointer[error] // the file was removed and a new one cannot be made: calls return this error
	armed   atomic.Bool           // the goroutine knows that records were appended
	urgent  atomic.Bool           // the goroutine is to write at once
	due     atomic.Bool           // the timer has fired
	closing atomic.Pointer[closing]

	patient   atomic.Bool   // calls wait for room as long as the constant patience says
	admitting chan struct{} // holds one item while a request waits for room
	reserved  atomic.Int64  // number of segments that admit has reserved
	work      work          // working time of the goroutine

	// The next fields have locks of their own.
	rounds    rounds
	dropped   droppedCalls
	callbacks callbacks
	finished  background    // finishes files of this path
	unsaved   atomic.Uint64 // number of entries of removed files that are not in another file yet
	family    background    // finishes files of other paths of the family

	mu sync.Mutex

	published published

	sink    sink
	file    *fileSink // sink, if that is a file
	tee     *teeQueue // nil: the recorder has no Tee
	placer  *placer.Placer
	journal *journal.Journal // the live journal, or the next one before it is live
	noted   []byte           // the last checkpoint in journal
	reader  *journal.Reader  // reads journal
	parking parking          // the pending spans in journal
	left    parked           // open spans in journal that are in earlier files

	timer    *time.Timer
	timerAt  time.Time // when timer fires; zero: it need not fire
	checked  time.Time
	rotation rotation
	leaving  bool  // the file was removed, and its entries count as unsaved
	unsynced error // the file before this one could not be synced

	suspended bool         // everything is in the file, and w has no journal
	waiting   atomic.Int32 // number of calls in putLater

	toldTooLarge time.Time // when OnError was last called for an entry that is too large
}

// run is the goroutine of the writer.
func (w *writer) run() {
	defer close(w.ended)
	// Use AfterFunc, not the channel of a timer: each select on such a channel registers the
	// timer anew with the runtime.
	w.timer = time.AfterFunc(time.Hour, func() { w.due.Store(true); w.wakeUp() })
	defer w.timer.Stop()
	w.setTimer()
	for {
		if c := w.closing.Load(); c != nil {
			c.done <- w.close(c.ctx)
			return
		}
		select {
		case <-w.wake:
			due := w.due.Swap(false)
			if due {
				w.timerAt = time.Time{}
			}
			if due && !w.suspended || w.urgent.Load() {
				_ = w.write() // write itself reports the error
			}
		case q := <-w.requests:
			q.done <- q.fn(w)
		}
		w.setTimer()
	}
}

// setTimer sets the timer for the next task, unless the timer fires before that.
func (w *writer) setTimer() {
	if w.suspended {
		return
	}
	next := time.Duration(math.MaxInt64)
	if w.armed.Load() || w.staged() {
		next = writeAfter
	}
	if entries, _, since := w.placer.Pending(); entries > 0 {
		next = min(next, max(time.Until(since.Add(w.o.MaxWaitingAge)), writeAfter))
	}
	if w.file != nil {
		next = min(next, w.rotation.due(w.o, w.placer))
	}
	if next == math.MaxInt64 {
		return
	}
	if at := time.Now().Add(next); w.timerAt.IsZero() || at.Before(w.timerAt) {
		w.timerAt = at
		w.timer.Reset(next)
	}
}

func (w *writer) staged() bool {
	b, _ := w.placer.Out()
	return len(b) > 0
}

// write writes the records in the journal, as far as possible in the order of their times.
func (w *writer) write() error {
	if w.suspended {
		w.resume()
	}
	// Reset the flags before reading the journal: a caller that finds a flag set relies on a
	// round that has not begun yet.
	w.armed.Store(false)
	w.urgent.Store(false)
	w.rounds.begin()
	w.check() // check before reading the journal: if the file was removed, a new file gets the records
	defer w.work.end(time.Now())
	err := w.drain()
	if err == nil && w.o.Durability == DurabilityPower {
		if err = cmp.Or(w.unsynced, w.work.disk(w.sink.sync)); err != nil {
			w.failed(err)
		}
	}
	w.unsynced = nil
	w.rounds.end(0, cmp.Or(err, w.goneErr()))
	w.publish(err)
	w.rotateIfDue() // a failed sync makes a rotation due
	if err != nil {
		w.unsynced = nil // the waiting calls have returned the error
	}
	return err
}

func (w *writer) drain() error {
	if err := w.flush(); err != nil { // entries that an earlier write could not write
		return err
	}
	w.reader.Capture()
	for e := w.reader.Next(); e != nil; e = w.reader.Next() {
		w.placer.Place(e)
		if b, _ := w.placer.Out(); len(b) >= flushSize || w.file != nil && w.rotation.tooBig(w.o, w.placer) {
			if err := w.flush(); err != nil {
				return err
			}
			w.checkpoint()
			w.rotateIfDue()
		}
	}
	if err := w.dropLost(); err != nil {
		w.broken.CompareAndSwap(nil, &err)
	}
	for done := false; !done; {
		done = w.placer.EnforceBounds(time.Now())
		if err := w.flush(); err != nil {
			return err
		}
	}
	w.checkpoint()
	w.rotateIfDue()
	if err := w.broken.Load(); err != nil {
		w.replaceJournal(*err)
	}
	return nil
}

// dropLost counts as dropped the records that the journal has lost. It returns why they are lost.
func (w *writer) dropLost() error {
	entries, spans, err := w.reader.Lost()
	if err != nil {
		w.drop(fmt.Errorf("journal %s: %w", w.reader.Name(), err), int(entries), int(spans))
	}
	return err
}

// flush writes the staged entries. Entries that are not whole in the sink remain staged.
func (w *writer) flush() error {
	b, staged := w.placer.Out()
	if len(staged) == 0 {
		if w.file != nil {
			return w.file.dead
		}
		return nil
	}
	var kept int
	err := w.work.disk(func() (err error) {
		kept, err = w.sink.write(b, staged)
		return err
	})
	if errors.Is(err, errChanged) {
		if err = w.mend(err); err == nil {
			b, staged = w.placer.Out()
			kept, err = w.sink.write(b, staged)
		}
	}
	spans := uint64(spansIn(staged[:kept]))
	// After mend, the ids do not match the entries that the Tee has, until the next file begins.
	if kept > 0 && w.tee != nil && !w.rotation.mended {
		if terr := w.tee.take(b, staged[:kept]); terr != nil {
			w.report(terr)
		}
	}
	w.placer.Flushed(kept)
	w.mu.Lock()
	w.countExtra()
	p := &w.published
	p.written[0] += uint64(kept)
	p.written[1] += spans
	p.bytes = w.sink.size()
	w.mu.Unlock()
	if err != nil {
		w.failed(err)
	}
	return err
}

// spansIn returns the number of staged entries that count as spans.
func spansIn(staged []placer.Staged) (n int) {
	for i := range staged {
		if staged[i].CountsSpan {
			n++
		}
	}
	return n
}

// dropStaged drops the staged entries, and counts them as dropped because of err.
func (w *writer) dropStaged(err error) {
	_, staged := w.placer.Out()
	entries, spans := len(staged), spansIn(staged)
	w.placer.DropStaged()
	w.drop(err, entries, spans)
}

// publish stores the result of a write in w.published.
func (w *writer) publish(err error) {
	w.mu.Lock()
	w.countExtra()
	p := &w.published
	p.flushes++
	p.flushErr = err
	if err == nil {
		p.failing = false
	}
	w.mu.Unlock()
	if err == nil && w.stuck.Load() {
		w.setStuck(false)
	}
}

// countExtra adds the entries and spans that no record counts to the offered ones. The caller
// holds w.mu.
func (w *writer) countExtra() {
	entries, spans := w.placer.Extra()
	w.published.extra[0] += entries
	w.published.extra[1] += spans
}

// drop counts entries and spans that were read from the journal and cannot be written.
func (w *writer) drop(err error, entries, spans int) {
	err = ownError(err)
	w.mu.Lock()
	w.countExtra()
	d := &w.published.dropped
	n := d[0].reason(err)
	*n += uint64(entries)
	lost := n == &d[0].IO || n == &d[0].Full
	tooLarge := n == &d[0].TooLarge && time.Since(w.toldTooLarge) > time.Minute
	*d[1].reason(err) += uint64(spans)
	w.mu.Unlock()
	switch {
	case lost:
		w.failed(err)
	case tooLarge:
		w.toldTooLarge = time.Now()
		w.report(err)
	}
}

// ownError converts an error of package placer to an error of this package or of package format.
func ownError(err error) error {
	switch {
	case errors.Is(err, placer.ErrTooLarge), errors.Is(err, placer.ErrBadRecord):
		return format.ErrTooLarge
	case errors.Is(err, placer.ErrFull):
		return format.ErrFull
	case errors.Is(err, placer.ErrNotOpen):
		return errNotOpen
	}
	return err
}

// append writes e below the entry parent and returns the id of e.
func (w *writer) append(e *journal.Entry, parent uint32, anchor bool) (uint32, error) {
	err := cmp.Or(w.write(), w.goneErr())
	w.mu.Lock()
	w.published.extra[0]++
	w.mu.Unlock()
	if w.rotation.stranger {
		parent = 0 // the caller's id belongs to another file
	}
	if err == nil && (uint64(parent) >= w.placer.Entries() || parent > 0 && w.rotation.on(w.o)) {
		err = format.ErrInvalid
	}
	var id uint32
	if err == nil {
		id, err = w.placer.Append(e, parent)
	}
	if err != nil {
		w.drop(err, 1, 0)
		return 0, ownError(err)
	}
	if anchor {
		w.placer.SetAnchor(id)
	}
	err = w.flush()
	if err == nil {
		w.checkpoint()
	}
	w.publish(err)
	return id, err
}

// checkEvery is how often a writer checks that its files still have their names.
const checkEvery = time.Second

// check begins a new file if the file has lost its name, and a new journal if the journal has
// lost its name.
func (w *writer) check() {
	if time.Since(w.checked) < checkEvery {
		return
	}
	w.checked = time.Now()
	if w.checkFile() != nil && !w.staged() {
		w.beginAgain()
	}
	w.checkSize()
	w.rotateIfDue()
	if w.goneErr() == nil && !w.reader.HasName() {
		w.replaceJournal(ErrUnlinked)
	}
}

// beginAgain begins a new file under the name that the file has lost. If that fails and the old file has
// another name, recording continues in the old file. If the old file was removed, its new entries would be
// lost with the process, so calls fail until a new file can be made.
func (w *writer) beginAgain() {
	now := time.Now()
	err := osfile.RestoreDir(w.file.f, w.name)
	if err == nil {
		err = w.rotate(now)
	}
	gone := w.goneErr()
	switch {
	case err == nil:
		_ = w.checkFile()
		if gone != nil {
			w.gone.Store(nil)
			w.replaceJournal(gone)
		}
	case gone == nil && w.file.isRemoved():
		err = fmt.Errorf("%w, and no other can be made: %w", ErrUnlinked, err)
		w.gone.Store(&err)
		w.live.Load().CloseShards() // Put then calls putLater, which returns the error
		w.failed(err)
	}
}

// checkSize mends the file if somebody else has changed it.
func (w *writer) checkSize() {
	if w.file == nil {
		return
	}
	if err := w.file.checkSize(); err != nil {
		if err = w.mend(err); err != nil {
			w.failed(err)
		}
	}
}

// mend cuts the file to its whole entries, after somebody else has changed it. A new file replaces
// this file as soon as all staged entries are written. The error says why the file cannot be mended.
func (w *writer) mend(cause error) error {
	root := placer.New(&w.intern.Table, &placer.Options{Columns: w.version == format.V2, MaxEntrySize: w.o.MaxEntrySize})
	root.Root()
	b, _ := root.Out()
	left, entries, spans, err := w.file.mend(w.version, b)
	if err != nil {
		return errors.Join(cause, err)
	}
	w.placer.CutTo(uint64(left), w.file.n)
	w.rotation.mended = true
	err = fmt.Errorf("%w; %d of its entries are lost, and a new file begins", cause, entries)
	w.mu.Lock()
	p := &w.published
	p.lose(entries, spans)
	p.bytes = w.file.n
	if entries > 0 {
		p.err = err
	}
	w.mu.Unlock()
	w.report(err)
	w.moveCheckpoint()
	return nil
}

func (w *writer) checkFile() error {
	err := w.sink.check()
	w.mu.Lock()
	first := err != nil && w.published.unlinked == nil && w.goneErr() == nil
	w.published.unlinked = err
	w.mu.Unlock()
	if first {
		w.report(err)
	}
	return err
}
