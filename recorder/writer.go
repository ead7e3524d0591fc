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

// A writer is the target of a Recorder that writes a file, or gives entries to a Tee. Calls
// append to its journal and return. One goroutine, that of run, takes the records out of the
// journal and writes them.
//
// Who owns what: the first group of fields does not change. The second is for calls and the
// goroutine, without a lock. What mu guards is for both as well; mu is never held while a file is
// used, so that no call waits for one. All the rest is the goroutine's alone, and so are the methods
// of this file, journal.go, rotate.go and sink.go.
type writer struct {
	o        *Options // nothing is left open
	version  format.Version
	intern   *record.Interner
	name     string // of the IET, for errors
	final    string // the file that close leaves
	died     bool   // what is recorded comes from a process that died: the last entry is NameRecovered
	wake     chan struct{}
	requests chan *request
	ended    chan struct{} // closed when the writer is gone

	live    atomic.Pointer[journal.Journal] // what calls append to
	wait    atomic.Bool                     // calls wait for the file
	closed  atomic.Bool
	stuck   atomic.Bool           // a call found no room, and nothing was written since
	broken  atomic.Pointer[error] // the journal cannot be appended to
	gone    atomic.Pointer[error] // the file was removed, and no other can be made: calls return it
	armed   atomic.Bool           // the writer knows that something has come
	urgent  atomic.Bool           // it is to write at once
	due     atomic.Bool           // its timer has fired
	closing atomic.Pointer[closing]

	patient   atomic.Bool   // calls wait for room as long as senders do
	admitting chan struct{} // holds one item while a request waits for room
	reserved  atomic.Int64  // segments, by admit
	work      work          // of the goroutine

	// They have locks of their own.
	rounds    rounds
	dropped   droppedCalls
	callbacks callbacks
	finished  background    // finishes files of this path
	unsaved   atomic.Uint64 // entries of files that were removed, as long as nothing else has them
	family    background    // finishes those of others

	mu sync.Mutex

	published published

	sink    sink
	file    *fileSink // sink, if that is a file
	tee     *teeQueue // nil: none
	placer  *placer.Placer
	journal *journal.Journal // the live one, or that which is to be
	noted   []byte           // the last checkpoint of journal
	reader  *journal.Reader  // of journal
	parking parking          // of journal
	left    parked           // of journal: open spans that are in earlier files

	timer    *time.Timer
	timerAt  time.Time // when it fires; zero: it need not
	checked  time.Time
	rotation rotation
	leaving  bool  // the file was removed, and its entries count as unsaved
	unsynced error // the file before this one could not be synced

	suspended bool         // everything is in the file, and there is no journal
	waiting   atomic.Int32 // calls in putLater

	toldTooLarge time.Time // when OnError was last told of that
}

// run is the goroutine of the writer.
func (w *writer) run() {
	defer close(w.ended)
	// It is no channel to wait at: that would have to be noted in the runtime's timers
	// each time.
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
				w.writeAndReport()
			}
		case q := <-w.requests:
			q.done <- q.fn(w)
		}
		w.setTimer()
	}
}

func (w *writer) writeAndReport() { _ = w.write() } // which notes its error

// setTimer sets the timer for what is to be done next, unless it fires before that.
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

// write writes what is in the journal, in the order of time as far as that goes.
func (w *writer) write() error {
	if w.suspended {
		w.resume()
	}
	// First, so that who asks for the round after this one, and finds that it was asked for
	// already, is right.
	w.armed.Store(false)
	w.urgent.Store(false)
	w.rounds.begin()
	w.check() // first, so that a new file gets the records if the old one was removed
	defer w.work.end(time.Now())
	err := w.drain()
	if err == nil && w.o.Durability == DurabilityPower {
		if err = cmp.Or(w.unsynced, w.work.disk(w.sink.sync)); err != nil {
			w.failed(err)
		}
	}
	w.unsynced = nil
	w.rounds.end(cmp.Or(err, w.goneErr()))
	w.publish(err)
	w.rotateIfDue() // if it could not be synced
	if err != nil {
		w.unsynced = nil // those who waited have been told
	}
	return err
}

func (w *writer) drain() error {
	if err := w.flush(); err != nil { // of an earlier time
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

// dropLost counts what the journal cannot give back, and says why.
func (w *writer) dropLost() error {
	entries, spans, err := w.reader.Lost()
	if err != nil {
		w.drop(fmt.Errorf("journal %s: %w", w.reader.Name(), err), int(entries), int(spans))
	}
	return err
}

// flush writes what is staged. What is not whole in the sink stays staged.
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
	// After a mend the ids are those of another stream, until the next file begins.
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

// spansIn returns how many spans the records of staged entries counted for.
func spansIn(staged []placer.Staged) (n int) {
	for i := range staged {
		if staged[i].CountsSpan {
			n++
		}
	}
	return n
}

// dropStaged counts what is staged as dropped because of err.
func (w *writer) dropStaged(err error) {
	_, staged := w.placer.Out()
	entries, spans := len(staged), spansIn(staged)
	w.placer.DropStaged()
	w.drop(err, entries, spans)
}

// publish says what came of a write.
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

// countExtra adds the entries and spans that no record counted for to what was offered.
// The lock is held.
func (w *writer) countExtra() {
	entries, spans := w.placer.Extra()
	w.published.extra[0] += entries
	w.published.extra[1] += spans
}

// drop counts what was taken out of the journal and cannot be written.
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

// ownError returns this package's error for one of the placer's.
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

// append writes an entry below another one.
func (w *writer) append(e *journal.Entry, parent uint32, anchor bool) (uint32, error) {
	err := cmp.Or(w.write(), w.goneErr())
	w.mu.Lock()
	w.published.extra[0]++
	w.mu.Unlock()
	if w.rotation.stranger {
		parent = 0 // it is an id of another file
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

// checkEvery is how often a writer looks whether its files have their names still.
const checkEvery = time.Second

// check begins a new file if the file has lost its name, and replaces a journal that has.
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

// beginAgain begins a new file under the name that the file has lost. If that cannot be, a file that has
// another name goes on. One that was removed would lose what it gets with the process, so that calls
// fail until there is a new one.
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
		w.live.Load().CloseShards() // which sends calls to putLater
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

// mend cuts the file to what is whole, after somebody else has changed it, and makes a new one
// take its place as soon as everything is in it. The error says why that cannot be.
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
	p.written[0] -= uint64(entries)
	p.dropped[0].IO += uint64(entries)
	p.written[1] -= uint64(spans)
	p.dropped[1].IO += uint64(spans)
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
