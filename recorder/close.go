package recorder

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"time"

	"github.com/entrace-go/entrace/format"
	"github.com/entrace-go/entrace/internal/core/entrybytes"
	"github.com/entrace-go/entrace/internal/core/journal"
	"github.com/entrace-go/entrace/internal/file/osfile"
	"github.com/entrace-go/entrace/internal/write/deadtrace"
)

// Close writes all waiting records and the entry of a clean end, and finishes the file. Call Close once for
// each Create that returned this recorder: the last of these calls closes the recorder. Later records are
// dropped and counted. If entries were lost, Close also returns the last
// error that caused a loss.
//
// If ctx ends before the ET is complete, Close leaves a readable IET and returns the error of ctx. Another call of
// Close, the next Create on that path, or Recover, makes the ET from this IET. Close returns within half a second after
// the end of ctx, even if the disk does not respond; in this time it writes records that are in memory. Records that
// cannot be written stay in the journal.
func (r *Recorder) Close(ctx context.Context) error {
	if r.Discards() {
		return nil
	}
	if ctx == nil {
		ctx = context.Background() // with a nil ctx, Close would panic halfway and leave the file locked
	}
	if !r.unref() {
		return insideRecorder{r}.FinishLeft(ctx)
	}
	if s := r.slot; s != nil {
		s.mu.Lock() // until r has ended, Create makes no other recorder of this path
		defer leaveSlot(r.stream, s)
		defer s.mu.Unlock()
		s.recorder = nil
	}
	return r.target.Close(ctx)
}

func (r insideRecorder) FinishLeft(ctx context.Context) error {
	w, ok := r.target.(*writer)
	if !ok || r.share(false) {
		return nil
	}
	select {
	case <-w.ended:
	case <-ctx.Done():
		return ctx.Err()
	}
	if !w.unfinished {
		return nil
	}
	_, err := deadtrace.Finish(ctx, w.name, &deadtrace.Options{Final: w.final, Report: w.report})
	if errors.Is(err, fs.ErrNotExist) || deadtrace.IsOthers(err) { // finished already, or a later recorder does it
		return nil
	}
	return err
}

// closeGrace is how long Close waits for the writer after the end of its context. The writer needs less
// time if the disk responds.
const closeGrace = 500 * time.Millisecond

// Close implements target.
func (w *writer) Close(ctx context.Context) error {
	w.closed.Store(true)
	patience, cancel := graceful(ctx)
	defer cancel()
	// Do not send a request. The writer may not respond now, but it must close when the disk responds
	// again, even if no call waits for it any more.
	c := &closing{ctx, make(chan error, 1)}
	w.closing.Store(c)
	w.wakeUp()
	var err error
	select {
	case err = <-c.done:
	case <-ctx.Done():
		before := w.Stats().Entries
		select {
		case err = <-c.done:
		case <-patience.Done():
			if w.tee != nil && w.tee.closes.Load() {
				err = fmt.Errorf("the Tee, such as a sender, has not accepted all entries in time: %w", context.Cause(ctx))
			} else {
				err = fmt.Errorf("%s is left unfinished, because %s: %w", w.name, unfinished(before, w.Stats().Entries), context.Cause(ctx))
			}
		}
	}
	w.callbacks.wait(patience)
	return err
}

// unfinished returns the reason why a file could not be finished in time.
func unfinished(before, now Counts) string {
	if now.Written == before.Written {
		return "the disk does not respond"
	}
	return fmt.Sprintf("there was no time to write %d waiting entries", now.Waiting)
}

// graceful returns a context that ends closeGrace after the end of ctx.
func graceful(ctx context.Context) (context.Context, context.CancelFunc) {
	later, cancel := context.WithCancel(context.WithoutCancel(ctx))
	stop := context.AfterFunc(ctx, func() { time.AfterFunc(closeGrace, cancel) })
	return later, func() { stop(); cancel() }
}

// close ends the recording. The goroutine of w calls it and then ends.
func (w *writer) close(ctx context.Context) error {
	whole, err := w.end()
	var lost error
	if w.file == nil {
		return errors.Join(err, w.tee.close(ctx))
	}
	f := w.file
	removed, left := f.isRemoved(), false
	if removed {
		_ = osfile.RestoreDir(f.folder, w.name) // if it fails, the next step returns an error
	}
	if fi, serr := f.f.Stat(); serr == nil && fi.Size() != f.n {
		err = errors.Join(err, fmt.Errorf("another program changed %s: it has %d bytes, expected %d", w.name, fi.Size(), f.n))
	}
	switch {
	case !whole:
		left = true
		err = errors.Join(err, fmt.Errorf("%s is left unfinished: its last entries are in %s; 'entrace recover' finishes the file", w.name, w.journalName()))
	case w.final == w.name && removed:
		lost = copyFile(ctx, f.f, w.name)
	case w.final == w.name:
		err = errors.Join(err, f.w.Sync(), f.syncErr, w.checkFile())
	case ctx.Err() != nil:
		left = true
		err = errors.Join(err, fmt.Errorf("%s is left unfinished: %w", w.name, ctx.Err()))
	default:
		lost = entrybytes.Finalize(ctx, w.name, w.final, &format.FinalizeOptions{File: f.f, RemoveSource: true, Folder: f.place()}, &f.index)
		var finalize *format.FinalizeError
		if errors.As(lost, &finalize) && finalize.Finished {
			removed = false // the ET has all entries
		}
	}
	w.unfinished = left
	if removed && (lost != nil || left) { // the unfinished file has no name
		w.loseWritten(f.index.CutTo(0))
	}
	err = errors.Join(err, lost, osfile.Ignore(f.f.Close(), os.ErrClosed), w.finished.wait(ctx))
	// Files of other recorders need not be finished now: the next start does it.
	soon, cancel := context.WithTimeout(ctx, familyGrace)
	defer cancel()
	return errors.Join(err, w.family.wait(soon), w.tee.close(ctx))
}

// familyGrace is how long Close waits for the finishing and pruning of other recorders' files.
const familyGrace = time.Second

// end writes the remaining records and the last entry. It reports whether all records are in the file.
func (w *writer) end() (whole bool, err error) {
	err = w.writeRest()
	if err == nil && w.file != nil {
		w.checkSize()
		w.rotateIfDue()
	}
	survives := w.live.Load().Medium() != journal.Heap
	if err != nil && !survives {
		w.lose(err)
	}
	if err == nil || !survives {
		err = cmp.Or(err, w.writeEnd(false)) // the last entry cannot be written for the same reason as the others
	}
	w.rounds.end(math.MaxUint64, err) // wakes calls that were made just before
	whole = w.closeJournal(err == nil || !survives)
	w.publish(err)
	w.mu.Lock()
	last := w.published.err
	w.mu.Unlock()
	return whole, cmp.Or(err, last)
}

// lose counts the records that are staged, pending or still in the journal as dropped.
func (w *writer) lose(err error) {
	w.dropStaged(err)
	w.reader.Capture() // needed if the last write failed before it called Capture
	for e := w.reader.Next(); e != nil; e = w.reader.Next() {
		w.drop(err, e.Info.Entries(), e.Info.Spans())
	}
	entries, spans, _ := w.placer.Pending()
	w.drop(err, entries, spans)
	w.placer.DropPending()
}

// Sync implements target.
func (w *writer) Sync(ctx context.Context) error {
	if w.closed.Load() {
		return ErrClosed
	}
	return w.ask(ctx, func(w *writer) error {
		w.checked = time.Time{} // check the name of the file now, because a file without a name is useless
		err := errors.Join(w.write(), w.goneErr(), w.finished.sync(), w.sink.sync())
		if n := w.unsaved.Load(); n > 0 {
			err = errors.Join(err, fmt.Errorf("sync %s: %w: the entries of the removed file are not saved yet", w.name, ErrUnlinked))
		}
		if w.file == nil {
			return err
		}
		// Recovery cuts the file to the size in the checkpoint. An old checkpoint on disk would make it cut
		// entries that Sync has promised to keep.
		err = errors.Join(err, w.live.Load().Sync(), osfile.SyncDir(w.name))
		if serr := w.file.syncErr; serr != nil {
			w.failed(serr)
		}
		return err
	})
}
