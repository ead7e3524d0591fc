package recorder

import (
	"errors"
	"fmt"

	"github.com/entrace-go/entrace/internal/core/journal"
	"github.com/entrace-go/entrace/internal/write/deadtrace"
)

// The journal of the growing file app.iet is app.iet.buffer. A checkpoint in the journal has a size of the
// IET, and a position in each stream of the journal: the IET of this size contains all records before these
// positions. Recovery cuts the IET to that size and appends the records after the positions, so that the
// IET has each record exactly once.

const (
	// journalSegments is the number of segments for records that are not in the file yet, 4 MiB in all.
	journalSegments = 64
	// definitionSegments is the number of segments for names and other definitions.
	definitionSegments = 20
)

func journalOptions(o *Options) journal.Options {
	return journal.Options{
		Segments: journalSegments, MaxWait: o.MaxBlock,
		Extra: definitionSegments + 2*(o.MaxWaitingBytes/journal.SegmentSize+1) + 2*(o.MaxEntrySize/journal.SegmentSize+1),
	}
}

// newJournal returns a journal for the durability in o. If replace is set, the journal will replace an existing one.
func newJournal(o *Options, name string, replace bool) (*journal.Journal, error) {
	if o.Durability != DurabilityProcess {
		return journal.New(journalOptions(o))
	}
	j, err := journal.Create(journal.Place{Beside: name, Dir: o.BufferDir, Replace: replace}, journalOptions(o))
	if err != nil {
		return nil, fmt.Errorf("create the journal (crash buffer): %w", err)
	}
	return j, nil
}

// openJournal makes the first journal of w, or another one after suspend. If the journal survives less than
// o.Durability promises, the error says why.
func (w *writer) openJournal() error { return errors.Join(w.changeJournal(nil)) }

// changeJournal makes w use a new journal, which replaces old. When changeJournal is called, old holds only spans that
// wait for their parents. If old is nil, w has no journal. The new journal is complete before it gets the name of the
// old one and before calls append to it. So the journal with this name always has all records that are not in the file,
// even after a crash.
//
// If no such journal can be made, w gets a journal in memory, and fallback says why. If err is not nil, w still needs
// old, and calls wait.
func (w *writer) changeJournal(old *journal.Journal) (fallback, err error) {
	w.broken.Store(nil)
	fallback = w.succeedJournal(old)
	if fallback != nil {
		err = w.doWithout()
	}
	if old != nil {
		if err != nil {
			return fallback, err
		}
		if fallback != nil {
			_ = old.Remove() // the file has all its records; if Remove fails, the journal is empty
		}
		w.intern.Detach(old)
	}
	w.publishJournal(fallback)
	return fallback, err
}

// succeedJournal makes a journal that replaces old. If it fails, old is unchanged. It fails if the file was moved:
// recovery would not find a journal that is not beside the file.
func (w *writer) succeedJournal(old *journal.Journal) error {
	if old != nil {
		if err := w.sink.check(); err != nil {
			return err
		}
	}
	j, err := newJournal(w.o, w.journalName(), old != nil)
	if err != nil {
		return err
	}
	err = w.intern.Attach(j)
	if err == nil {
		w.useJournal(j)
		err = w.handOver(func() bool { return w.placer.Repark(false) }, func() error {
			switch {
			case old == nil:
				return nil
			case j.Medium() == journal.Heap:
				_ = old.Remove() // both journals have no name
				return nil
			}
			return j.Replace(old)
		})
	}
	if err != nil {
		w.broken.Store(nil) // it says at most why j failed
		w.intern.Detach(j)
		_ = j.Remove() // no call has appended to it
	}
	return err
}

// doWithout makes w use a journal in memory. A span is then safe only in the file, so doWithout writes the spans that
// wait for their parents to the file.
func (w *writer) doWithout() error {
	j, err := journal.New(journalOptions(w.o))
	if err != nil {
		return err // cannot happen: a journal in memory cannot fail
	}
	w.useJournal(j)
	w.placer.Repark(false)
	for w.placer.StagePending() {
	}
	return w.flush()
}

// handOver makes a successor of the file or of the journal take its place. First, park copies the spans that wait for
// their parents to the journal, and a checkpoint marks them as waiting. Then rename gives the successor its name.
func (w *writer) handOver(park func() bool, rename func() error) error {
	if !park() {
		return errNoRoomToPark
	}
	w.checkpoint()
	if err := w.broken.Load(); err != nil {
		return *err
	}
	return rename()
}

// errNoRoomToPark means that a new file or journal cannot begin before the journal has more room.
var errNoRoomToPark = errors.New("the journal has no room for the waiting spans")

// suspend writes everything to the file and removes the journal. Calls then wait until the next write makes
// another journal.
func (w *writer) suspend() error {
	if w.suspended || w.waiting.Load() > 0 { // calls already wait for a journal
		return nil
	}
	j := w.live.Load()
	err := w.writeRest()
	switch {
	case j != w.live.Load():
		return errors.Join(err, errors.New("the journal was replaced")) // records of calls may be in the new journal
	case err != nil:
		w.broken.CompareAndSwap(nil, &err) // the shards are closed, so the journal must be replaced
		return err
	}
	w.closeJournal(true)
	w.parking, w.left, w.noted, w.reader = parking{}, parked{}, nil, j.NewReader()
	w.placer.ForgetEnded()
	w.suspended = true
	w.publish(nil)
	return nil
}

// useJournal makes w read j, and copy waiting spans to j. Calls append to the old journal until
// publishJournal is called.
func (w *writer) useJournal(j *journal.Journal) {
	w.journal, w.noted = j, nil
	w.parking = parking{parked: newParked(j, journal.StreamParked)}
	w.left = newParked(j, journal.StreamLeft)
	w.reader = j.NewReader()
	w.reader.Needs = w.placer.Needs
	w.placer.ReparkLeft()
}

// publishJournal makes calls append to w.journal. If the journal survives less than the durability
// promises, fallback says why.
func (w *writer) publishJournal(fallback error) {
	w.mu.Lock()
	if old := w.live.Load(); old != nil {
		entries, spans := old.Appended()
		w.published.previous[0] += entries
		w.published.previous[1] += spans
	}
	w.live.Store(w.journal)
	if fallback != nil {
		w.published.durability, w.published.fallback = DurabilityWriteThrough, fallback
	}
	d := w.published.durability
	w.mu.Unlock()
	w.wait.Store(d == DurabilityWriteThrough || d == DurabilityPower)
	if w.goneErr() != nil {
		w.journal.CloseShards() // calls still have to fail
	}
}

// replaceJournal makes a new journal after the current journal has failed, or was removed or renamed. Calls wait
// until the new journal is complete.
func (w *writer) replaceJournal(cause error) {
	if w.staged() { // only the old journal has the staged entries
		w.broken.CompareAndSwap(nil, &cause)
		return
	}
	old := w.live.Load()
	if w.journal == old {
		old.CloseShards()
		w.reader.Capture()
		for e := w.reader.Next(); e != nil; e = w.reader.Next() {
			w.placer.Place(e)
		}
		_ = w.dropLost() // the caller already knows that the journal has failed
	}
	err := w.flush()
	var fallback error
	if err == nil {
		fallback, err = w.changeJournal(old)
	}
	if err != nil {
		// The shards stay closed: calls wait until a later attempt succeeds.
		w.broken.CompareAndSwap(nil, &cause)
		return
	}
	what := "the journal failed"
	if errors.Is(cause, ErrUnlinked) {
		what = "the journal was lost"
	}
	w.report(errors.Join(fmt.Errorf("%s: %w", what, cause), fallback))
}

// park implements placer.Options.Park.
func (w *writer) park(e *journal.Entry) (*journal.Segment, bool) {
	if w.parking.stream == nil {
		return nil, w.o.Durability != DurabilityPower // if power must not be lost, do not wait: write the span now
	}
	seg := w.parking.add(e)
	return seg, seg != nil
}

// checkpoint writes to the journal which of its records are in the file, and frees the segments that are
// not needed any more.
func (w *writer) checkpoint() {
	if b, _ := w.placer.Out(); len(b) > 0 {
		return
	}
	if w.parking.stream != nil && w.file != nil {
		var room [32]uint64
		c := deadtrace.Checkpoint{
			Size: w.file.n, Tail: w.file.tail, Version: w.o.Version, Anchor: w.placer.Anchor(),
			Parked: [2]uint64{w.parking.from, w.parking.stream.Position()}, Positions: w.reader.Positions(room[:0]),
			Entries: w.entries(), Unsaved: w.unsaved.Load(),
		}
		var buf [512]byte
		b := c.Append(buf[:0])
		if err := w.journal.Checkpoint(b); err != nil {
			w.broken.CompareAndSwap(nil, &err)
			return // the previous checkpoint still needs the segments
		}
		w.noted = append(w.noted[:0], b...)
	}
	w.reader.Release()
	w.parking.release()
	w.left.release()
}

// moveCheckpoint changes the last checkpoint after the file has become shorter. The records that were cut
// from the file are still in the journal.
func (w *writer) moveCheckpoint() {
	if len(w.noted) == 0 {
		return
	}
	c := deadtrace.ParseCheckpoint(w.noted)
	c.Size, c.Tail, c.Anchor, c.Entries = w.file.n, w.file.tail, w.placer.Anchor(), w.entries()
	w.noted = c.Append(w.noted[:0])
	if err := w.journal.Checkpoint(w.noted); err != nil {
		w.broken.CompareAndSwap(nil, &err)
	}
}

// closeJournal closes the journal, and removes it if all records are in the file. The parameter whole says whether all
// records were written without an error. The result says whether the journal was removed.
func (w *writer) closeJournal(whole bool) bool {
	j := w.live.Load()
	w.intern.Detach(j)
	if b, _ := w.placer.Out(); len(b) > 0 || w.file != nil && w.file.dead != nil {
		whole = false
	}
	if whole {
		_ = j.Remove() // if it fails, the journal is empty
	} else {
		_ = j.Close()
	}
	return whole
}
