package recorder

import (
	"errors"
	"fmt"

	"github.com/entrace-go/entrace/internal/core/journal"
	"github.com/entrace-go/entrace/internal/file/tracename"
	"github.com/entrace-go/entrace/internal/write/deadtrace"
)

// The journal app.iet.buffer lies beside the growing app.iet. A checkpoint says how much
// of each of its streams is in the first so many bytes of the IET. Recovery cuts the IET
// to that and writes the rest of the streams behind it, so that each record is there
// exactly once.

const (
	// journalSegments are 4 MiB, for what is on its way to the file.
	journalSegments = 64
	// definitionSegments are for names and the like.
	definitionSegments = 20
)

func journalOptions(o *Options) journal.Options {
	return journal.Options{
		Segments: journalSegments, MaxWait: o.MaxBlock,
		Extra: definitionSegments + 2*(o.MaxWaitingBytes/journal.SegmentSize+1) + 2*(o.MaxEntrySize/journal.SegmentSize+1),
	}
}

// newJournal returns the journal that o asks for. If that fails, it returns a journal in memory
// and the error. With replace the journal will take the place of another one.
func newJournal(o *Options, name string, replace bool) (*journal.Journal, error) {
	jo := journalOptions(o)
	var err error
	if o.Durability == DurabilityProcess {
		var j *journal.Journal
		if j, err = journal.Create(journal.Place{Beside: name, Dir: o.BufferDir, Replace: replace}, jo); err == nil {
			return j, nil
		}
		err = fmt.Errorf("create the journal: %w", err)
	}
	j, herr := journal.New(jo)
	if herr != nil {
		return nil, herr // cannot be: memory is there
	}
	return j, err
}

// openJournal gives w, which has no journal, a journal. The error says why it does not survive the process
// as it should.
func (w *writer) openJournal() error {
	j, fallback := newJournal(w.o, w.journalName(), false)
	if j == nil {
		return fallback
	}
	fallback = errors.Join(fallback, w.intern.Attach(j))
	w.useJournal(j)
	w.placer.ReparkLeft()
	w.checkpoint()
	w.publishJournal(fallback)
	return fallback
}

// suspend writes everything to the file and removes the journal. Calls then wait until the next write
// makes another journal.
func (w *writer) suspend() error {
	if w.suspended || w.waiting.Load() > 0 { // calls that wait for a journal would wait again
		return nil
	}
	j := w.live.Load()
	err := w.writeRest()
	switch {
	case j != w.live.Load():
		return errors.Join(err, errors.New("the journal was replaced")) // calls have appended to it
	case err != nil:
		w.broken.CompareAndSwap(nil, &err) // its shards are closed
		return err
	}
	w.closeJournal(true)
	w.parking, w.left, w.noted, w.reader = parking{}, parked{}, nil, j.NewReader()
	w.placer.ForgetEnded()
	w.suspended = true
	w.publish(nil)
	return nil
}

// resume makes a journal after suspend.
func (w *writer) resume() {
	w.suspended = false
	if err := w.openJournal(); err != nil {
		w.report(err)
	}
}

// useJournal makes w read j and park spans in j. Calls append to the old journal until
// publishJournal.
func (w *writer) useJournal(j *journal.Journal) {
	w.journal, w.noted = j, nil
	w.parking = parking{parked: newParked(j, journal.StreamParked)}
	w.left = newParked(j, journal.StreamLeft)
	w.reader = j.NewReader()
	w.reader.Needs = w.placer.Needs
}

// publishJournal lets calls append to the journal of w. Fallback says why it does not survive
// the process as it should.
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
		w.journal.CloseShards() // calls still fail
	}
}

func (w *writer) journalName() string { return w.name + tracename.Journal }

// replaceJournal makes a new journal because the current one has failed, or has lost
// its name. The new one is complete before it gets the name of the old one and before calls
// append to it, so that a crash at any moment finds a journal with everything that is not in
// the file. Until then calls wait.
func (w *writer) replaceJournal(cause error) {
	w.broken.Store(nil)
	if w.staged() { // what is in it is not in the file yet
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
		_ = w.dropLost() // which is why it is replaced
	}
	err := w.flush()
	var fallback error
	if err == nil {
		if fallback = w.succeed(old); fallback != nil {
			err = w.doWithout(old)
		}
	}
	if err != nil {
		// The shards stay closed, so that calls wait until this has worked.
		w.broken.CompareAndSwap(nil, &cause)
		return
	}
	w.intern.Detach(old)
	w.publishJournal(fallback)
	what := "the journal failed"
	if errors.Is(cause, ErrUnlinked) {
		what = "the journal was lost"
	}
	w.report(errors.Join(fmt.Errorf("%s: %w", what, cause), fallback))
}

// succeed makes a journal that takes the place of old, which holds only waiting spans. When
// succeed fails, old is unchanged.
func (w *writer) succeed(old *journal.Journal) error {
	j, err := newJournal(w.o, w.journalName(), true)
	if err != nil {
		return err
	}
	if err = w.intern.Attach(j); err == nil {
		w.useJournal(j)
		w.placer.ReparkLeft()
		if !w.placer.Repark(false) {
			err = errNoRoomToPark
		} else if w.checkpoint(); w.broken.Load() != nil {
			err = *w.broken.Swap(nil)
		} else if j.Medium() == journal.Heap {
			_ = old.Remove() // neither has a name
		} else {
			err = j.Replace(old)
		}
	}
	if err != nil {
		w.intern.Detach(j)
		_ = j.Remove() // nobody has appended to it
	}
	return err
}

// doWithout replaces old by a journal in memory. From then on the waiting spans are safe only
// when they are in the file.
func (w *writer) doWithout(old *journal.Journal) error {
	j, err := journal.New(journalOptions(w.o))
	if err != nil {
		return err // cannot be: memory is there
	}
	w.useJournal(j)
	w.placer.ReparkLeft()
	w.placer.Repark(false)
	for w.placer.StagePending() {
	}
	if err := w.flush(); err != nil {
		return err
	}
	_ = old.Remove() // what it held is in the file
	return nil
}

// parked are records of spans in the journal, in a stream of their own.
type parked struct {
	stream *journal.Stream // nil: they are lost with the process, as everything is
	live   map[*journal.Segment]int
	done   map[*journal.Segment]bool // those that the last checkpoint needs still
}

func newParked(j *journal.Journal, stream uint32) parked {
	if j.Medium() == journal.Heap {
		return parked{}
	}
	return parked{j.NewStream(stream), make(map[*journal.Segment]int), make(map[*journal.Segment]bool)}
}

// add returns the segment of a copy of e, nil if there is no room.
func (p *parked) add(e *journal.Entry) *journal.Segment {
	seg, err := p.stream.Append(e.Time, e.Info, e.Data)
	if err != nil {
		return nil
	}
	p.live[seg]++
	return seg
}

// drop gives up a copy in seg.
func (p *parked) drop(seg *journal.Segment) {
	if p.live[seg]--; p.live[seg] <= 0 {
		delete(p.live, seg)
		p.done[seg] = true
	}
}

// release gives back the segments that have no copies and that no checkpoint needs.
func (p *parked) release() {
	for seg := range p.done {
		if p.live[seg] == 0 {
			p.stream.Release(seg)
		}
	}
	clear(p.done)
}

// parking are the pending spans.
type parking struct {
	parked

	from uint64 // what was parked before counts no more
}

// park implements placer.Options.Park.
func (w *writer) park(e *journal.Entry) (*journal.Segment, bool) {
	if w.parking.stream == nil {
		return nil, w.o.Durability != DurabilityPower // there it would not be safe
	}
	seg := w.parking.add(e)
	return seg, seg != nil
}

// unpark implements placer.Options.Unpark.
func (w *writer) unpark(seg *journal.Segment) {
	if seg != nil {
		w.parking.drop(seg)
	}
}

// parkLeft implements placer.Options.ParkLeft.
func (w *writer) parkLeft(e *journal.Entry) *journal.Segment {
	if w.left.stream == nil {
		return nil
	}
	return w.left.add(e)
}

// checkpoint writes to the journal how many of its records are in the file, and releases the
// segments that are not needed any more.
func (w *writer) checkpoint() {
	if b, _ := w.placer.Out(); len(b) > 0 {
		return
	}
	if w.parking.stream != nil && w.file != nil {
		var room [32]uint64
		c := deadtrace.Checkpoint{
			Size: w.file.n, Tail: w.file.tail, Version: w.version, Anchor: w.placer.Anchor(),
			Parked: [2]uint64{w.parking.from, w.parking.stream.Position()}, Positions: w.reader.Positions(room[:0]),
			Entries: w.entries(), Unsaved: w.unsaved.Load(),
		}
		var buf [512]byte
		b := c.Append(buf[:0])
		if err := w.journal.Checkpoint(b); err != nil {
			w.broken.CompareAndSwap(nil, &err)
			return // and leave the segments alone
		}
		w.noted = append(w.noted[:0], b...)
	}
	w.reader.Release()
	w.parking.release()
	w.left.release()
}

// entries returns how many entries of the file somebody would miss who finds a checkpoint without the file.
func (w *writer) entries() uint64 {
	if w.leaving {
		return 0
	}
	return w.placer.Entries()
}

// moveCheckpoint changes the last checkpoint to describe the file as it is now. The file is
// shorter; the records that were cut from it are still in the journal.
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

// closeJournal removes the journal if everything is in the file, and reports whether
// everything is.
func (w *writer) closeJournal(whole bool) bool {
	j := w.live.Load()
	w.intern.Detach(j)
	if b, _ := w.placer.Out(); len(b) > 0 || w.file != nil && w.file.dead != nil {
		whole = false
	}
	if whole {
		if len(w.noted) > 0 { // if the journal stays, nobody is to miss the file that becomes the ET
			c := deadtrace.ParseCheckpoint(w.noted)
			c.Entries = 0
			_ = j.Checkpoint(c.Append(nil))
		}
		_ = j.Remove() // a file that stays is found to hold nothing new
	} else {
		_ = j.Close()
	}
	return whole
}
