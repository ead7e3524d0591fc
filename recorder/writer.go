package recorder

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/entrace-go/entrace/format"
	"github.com/entrace-go/entrace/internal/core/journal"
	"github.com/entrace-go/entrace/internal/core/placer"
	"github.com/entrace-go/entrace/internal/core/record"
	"github.com/entrace-go/entrace/internal/file/osfile"
)

// A writer is the target of a Recorder that writes a file, or passes entries to a Tee. Calls append to its
// journal and return. One goroutine, which runs the method run, reads the records from the journal and
// writes them.
//
// Calls use the intake, and the goroutine reports its results to them there. The functions that finish earlier files
// use the finisher. All other fields, with the output, belong to the goroutine.
type writer struct {
	intake
	finisher
	output

	intern  *record.Interner
	tee     *teeQueue        // nil: the recorder has no Tee
	journal *journal.Journal // the live journal, or a new journal that will become the live one
	noted   []byte           // the bytes of the last checkpoint in journal
	reader  *journal.Reader  // reads journal
	parking parking          // copies in journal of the spans that wait for their parents
	left    parked           // copies in journal of open spans that only earlier files contain

	timer    *time.Timer
	timerAt  time.Time // when timer fires; zero: the timer has no task
	checked  time.Time
	unsynced error // the error of the last sync of the previous file

	died       bool // the records come from a process that died: the last entry is NameRecovered, not NameEnd
	suspended  bool // everything is in the file, and w has no journal
	unfinished bool // Close has left the file unfinished; callers may read it after ended is closed

	toldTooLarge time.Time // when OnError was last called because an entry was too large
}

// run is the goroutine of the writer.
func (w *writer) run() {
	defer close(w.ended)
	// AfterFunc is cheaper than the channel of a timer: each select on such a channel registers the timer
	// anew with the runtime.
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

// setTimer makes the timer fire when the next task is due. It does not change a timer that fires earlier.
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

// write writes the records in the journal, in the order of their times as far as possible.
func (w *writer) write() error {
	if w.suspended {
		w.suspended = false
		if err := w.openJournal(); err != nil {
			w.report(err)
		}
	}
	// Reset the flags before reading the journal. A call that finds a flag set does not wake the goroutine:
	// it relies on a round that begins later.
	w.armed.Store(false)
	w.urgent.Store(false)
	w.rounds.begin()
	w.check() // before the journal is read: if the file was removed, the records go to a new file
	defer w.work.end(time.Now())
	err := w.drain()
	if err == nil && w.o.Durability == DurabilityPower {
		err = cmp.Or(w.unsynced, w.work.disk(w.sink.sync))
		if err != nil {
			w.failed(err)
		}
	}
	w.unsynced = nil
	w.rounds.end(0, cmp.Or(err, w.goneErr()))
	w.publish(err)
	w.rotateIfDue() // a failed sync makes a rotation due
	if err != nil {
		w.unsynced = nil // the calls that waited for this round have got the error
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

// writeRest makes the journal refuse new records, and writes all records in the journal, including the
// spans that wait for their parents.
func (w *writer) writeRest() error {
	if w.suspended {
		return nil
	}
	w.live.Load().CloseShards()
	err := w.write()
	for err == nil && w.placer.StagePending() {
		if b, _ := w.placer.Out(); len(b) >= flushSize {
			err = w.flush()
		}
	}
	if err == nil {
		err = w.flush()
	}
	return err
}

// dropLost adds the records that the journal has lost to the counts of dropped ones. It returns the reason of the loss.
func (w *writer) dropLost() error {
	entries, spans, err := w.reader.Lost()
	if err != nil {
		w.drop(fmt.Errorf("journal %s: %w", w.reader.Name(), err), int(entries), int(spans))
	}
	return err
}

// flush writes the staged entries. An entry that is not completely in the sink remains staged.
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
		err = w.mend(err)
		if err == nil {
			b, staged = w.placer.Out()
			kept, err = w.sink.write(b, staged)
		}
	}
	spans := uint64(spansIn(staged[:kept]))
	// After mend, the file and the Tee have different ids for the same entries, until the next file begins.
	if kept > 0 && w.tee != nil && !w.rotation.mended {
		if terr := w.tee.take(b, staged[:kept]); terr != nil {
			w.report(terr)
		}
	}
	w.placer.Flushed(kept)
	w.mu.Lock()
	p := &w.published
	p.addExtra(w.placer.Extra())
	p.written[0] += uint64(kept)
	p.written[1] += spans
	p.bytes = w.sink.size()
	w.mu.Unlock()
	if err != nil {
		w.delayed(err)
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
	p := &w.published
	p.addExtra(w.placer.Extra())
	p.flushes++
	p.flushErr = err
	if err == nil {
		p.late, p.failing = nil, false
	}
	w.mu.Unlock()
	if err == nil && w.stuck.Load() {
		w.setStuck(false)
	}
}

// drop counts entries and spans that were read from the journal and cannot be written.
func (w *writer) drop(err error, entries, spans int) {
	err = ownError(err)
	w.mu.Lock()
	w.published.addExtra(w.placer.Extra())
	d := &w.published.dropped
	n := d[0].reason(err)
	*n += uint64(entries)
	lost := n == &d[0].IO || n == &d[0].Full
	tooLarge := n == &d[0].TooLarge && time.Since(w.toldTooLarge) > time.Minute
	*d[1].reason(err) += uint64(spans)
	w.mu.Unlock()
	switch {
	case lost:
		w.dropped.lostNow()
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
		parent = 0 // a new file has replaced the file for which the caller got this id
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

// check begins a new file if the file was removed or renamed, and a new journal if the journal was.
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

// beginAgain begins a new file after the old one was removed or renamed. If that fails, recording continues
// in a renamed file. New entries in a removed file, or on a device that is no longer mounted, might never be
// found. Therefore calls then fail until a new file can be made.
func (w *writer) beginAgain() {
	now := time.Now()
	err := osfile.RestoreDir(w.file.folder, w.name)
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
	case gone == nil && (w.file.isRemoved() || w.file.isUnmounted()):
		err = fmt.Errorf("%w, and no new file can be created: %w", ErrUnlinked, err)
		w.gone.Store(&err)
		w.live.Load().CloseShards() // Put then calls putLater, which returns the error
		w.failed(err)
	}
}

// checkSize mends the file if another program has changed its size.
func (w *writer) checkSize() {
	if w.file == nil {
		return
	}
	if err := w.file.checkSize(); err != nil {
		err = w.mend(err)
		if err != nil {
			w.failed(err)
		}
	}
}

// mend repairs the file after another program has changed it: it cuts the file to the entries that are
// still intact. A new file replaces this file when no entry is staged. The error says why the file cannot
// be mended.
func (w *writer) mend(cause error) error {
	root := placer.New(&w.intern.Table, &placer.Options{Columns: w.o.Version == format.V2, MaxEntrySize: w.o.MaxEntrySize})
	root.Root()
	b, _ := root.Out()
	left, entries, spans, err := w.file.mend(w.o.Version, b)
	if err != nil {
		return errors.Join(cause, err)
	}
	w.placer.CutTo(uint64(left), w.file.n)
	w.rotation.mended = true
	err = fmt.Errorf("%w; %d entries of the file are lost, and a new file begins", cause, entries)
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
