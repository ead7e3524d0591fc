package recorder

import (
	"errors"
	"fmt"

	"github.com/entrace-go/entrace/internal/core/journal"
	"github.com/entrace-go/entrace/internal/file/tracename"
	"github.com/entrace-go/entrace/internal/write/deadtrace"
)

// The journal of the growing file app.iet is app.iet.buffer. A checkpoint has a size of the
// IET, and says how much of each stream of the journal is in that part of the IET. Recovery
// cuts the IET to that size and appends the rest of the streams, so that the IET has each
// record exactly once.

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

// newJournal returns a journal as o asks for. If that fails, it returns a journal in memory
// and the error. If replace is set, the journal will replace an existing one.
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
		return nil, herr // does not happen: a journal in memory cannot fail
	}
	return j, err
}

// openJournal makes a journal for w, which has none. The error says why the journal does not survive the
// process as it should.
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

// suspend writes everything to the file and removes the journal. The next write makes another journal;
// calls wait until then.
func (w *writer) suspend() error {
	if w.suspended || w.waiting.Load() > 0 { // calls that wait for a journal would wait again
		return nil
	}
	j := w.live.Load()
	err := w.writeRest()
	switch {
	case j != w.live.Load():
		return errors.Join(err, errors.New("the journal was replaced")) // calls may have appended to the new journal
	case err != nil:
		w.broken.CompareAndSwap(nil, &err) // have the journal replaced, because its shards are closed
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
// publishJournal is called.
func (w *writer) useJournal(j *journal.Journal) {
	w.journal, w.noted = j, nil
	w.parking = parking{parked: newParked(j, journal.StreamParked)}
	w.left = newParked(j, journal.StreamLeft)
	w.reader = j.NewReader()
	w.reader.Needs = w.placer.Needs
}

// publishJournal makes calls append to the journal w.journal. fallback says why the journal does
// not survive the process as it should.
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
		w.journal.CloseShards() // calls must still fail
	}
}

func (w *writer) journalName() string { return w.name + tracename.Journal }

// replaceJournal makes a new journal because the current journal has failed or has lost its
// name. The new journal is complete before it gets the name of the old one and before calls
// append to it. So after a crash at any moment, a journal has everything that is not in the
// file. Calls wait until the new journal is complete.
func (w *writer) replaceJournal(cause error) {
	w.broken.Store(nil)
	if w.staged() { // staged entries are in the old journal and not in the file yet
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
		_ = w.dropLost() // the caller knows that the journal has failed
	}
	err := w.flush()
	var fallback error
	if err == nil {
		if fallback = w.succeed(old); fallback != nil {
			err = w.doWithout(old)
		}
	}
	if err != nil {
		// The shards stay closed, so that calls wait until a later attempt succeeds.
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

// succeed makes a journal that replaces old. The journal old holds only waiting spans. If succeed
// fails, old is unchanged.
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

// doWithout replaces old by a journal in memory. From then on, spans are safe only in the file, so
// doWithout writes the waiting spans there.
func (w *writer) doWithout(old *journal.Journal) error {
	j, err := journal.New(journalOptions(w.o))
	if err != nil {
		return err // does not happen: a journal in memory cannot fail
	}
	w.useJournal(j)
	w.placer.ReparkLeft()
	w.placer.Repark(false)
	for w.placer.StagePending() {
	}
	if err := w.flush(); err != nil {
		return err
	}
	_ = old.Remove() // all its records are in the file
	return nil
}

// parked holds copies of span records in a stream of the journal.
type parked struct {
	stream *journal.Stream           // nil: the journal is in memory, so nothing survives the process
	live   map[*journal.Segment]int  // number of live copies in each segment
	done   map[*journal.Segment]bool // segments without live copies, which the last checkpoint may still need
}

func newParked(j *journal.Journal, stream uint32) parked {
	if j.Medium() == journal.Heap {
		return parked{}
	}
	return parked{j.NewStream(stream), make(map[*journal.Segment]int), make(map[*journal.Segment]bool)}
}

// add copies e to the stream and returns the segment of the copy, or nil if there is no stream or no room.
func (p *parked) add(e *journal.Entry) *journal.Segment {
	if p.stream == nil {
		return nil
	}
	seg, err := p.stream.Append(e.Time, e.Info, e.Data)
	if err != nil {
		return nil
	}
	p.live[seg]++
	return seg
}

// drop gives up one copy in seg.
func (p *parked) drop(seg *journal.Segment) {
	if p.live[seg]--; p.live[seg] <= 0 {
		delete(p.live, seg)
		p.done[seg] = true
	}
}

// release gives back the segments that have no live copies. It is called after a checkpoint that
// does not need them.
func (p *parked) release() {
	for seg := range p.done {
		if p.live[seg] == 0 {
			p.stream.Release(seg)
		}
	}
	clear(p.done)
}

// parking holds copies of the pending spans.
type parking struct {
	parked

	from uint64 // position in the stream; copies before it are obsolete
}

// park implements placer.Options.Park.
func (w *writer) park(e *journal.Entry) (*journal.Segment, bool) {
	if w.parking.stream == nil {
		return nil, w.o.Durability != DurabilityPower // a span in memory would not survive a loss of power
	}
	seg := w.parking.add(e)
	return seg, seg != nil
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
			return // do not release segments that the last good checkpoint needs
		}
		w.noted = append(w.noted[:0], b...)
	}
	w.reader.Release()
	w.parking.release()
	w.left.release()
}

// entries returns how many entries are lost if the file disappears. A checkpoint holds this number.
func (w *writer) entries() uint64 {
	if w.leaving {
		return 0
	}
	return w.placer.Entries()
}

// moveCheckpoint changes the last checkpoint to describe the file as it is now. The file has
// become shorter; the records that were cut from it are still in the journal.
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

// closeJournal removes the journal if all records are in the file, and reports whether
// they are.
func (w *writer) closeJournal(whole bool) bool {
	j := w.live.Load()
	w.intern.Detach(j)
	if b, _ := w.placer.Out(); len(b) > 0 || w.file != nil && w.file.dead != nil {
		whole = false
	}
	if whole {
		if len(w.noted) > 0 { // if Remove fails, a reader of the journal must not miss the IET, which becomes the ET
			w.parking.from = w.parking.stream.Position() // no span is pending any more
			w.checkpoint()
			c := deadtrace.ParseCheckpoint(w.noted)
			c.Entries = 0
			_ = j.Checkpoint(c.Append(nil))
		}
		_ = j.Remove() // if it fails, recovery finds that the journal holds nothing new
	} else {
		_ = j.Close()
	}
	return whole
}
