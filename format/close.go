package format

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"
)

// Close writes what still waits and the entry that marks a clean end, and
// finishes the file. There is to be one Close for each Create that returned this
// recorder: the last one closes it, and more do nothing. Entries that come later
// are dropped and counted. Close also returns the last error that cost entries.
//
// With a context that is done, or as soon as it is, Close leaves a whole IET
// beside the name of the ET and returns the context's error: the next Create on
// that path, or Recover, finishes it. Whatever fails, nothing recorded is lost:
// what cannot be written stays in the crash buffer.
func (r *Recorder) Close(ctx context.Context) error {
	if r.Discards() {
		return nil
	}
	if r.ring != nil {
		return r.ring.Close()
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
	whole, err := r.end()
	r.draining.Lock() // the last one that drained is gone, and there is no other
	if r.f == nil {
		return errors.Join(err, r.closeTee(ctx))
	}
	if fi, serr := r.f.Stat(); serr == nil && fi.Size() != r.size {
		err = errors.Join(err, fmt.Errorf("%s has %d bytes, %d were written: somebody else changed it", r.stream, fi.Size(), r.size))
	}
	switch {
	case !whole:
		err = errors.Join(err, fmt.Errorf("%s is left unfinished, the rest of it is in %s", r.stream, r.bufferName()))
	case r.final == r.stream:
		err = errors.Join(err, r.w.Sync(), r.sync.err, r.look())
	case ctx.Err() != nil:
		err = errors.Join(err, fmt.Errorf("%s is left unfinished: %w", r.stream, ctx.Err()))
	default:
		err = errors.Join(err, finalizeOpen(ctx, r.f, r.stream, r.final, &FinalizeOptions{RemoveSource: true, table: r.index.table()}))
	}
	r.index = index{}
	if cerr := r.f.Close(); !errors.Is(cerr, os.ErrClosed) {
		err = errors.Join(err, cerr)
	}
	return errors.Join(err, r.finished.wait(ctx), r.closeTee(ctx))
}

// distinct returns err unless it is other.
func distinct(err, other error) error {
	if errors.Is(err, other) {
		return nil
	}
	return err
}

// end writes what is left to write, and reports whether that is all in the file.
func (r *Recorder) end() (whole bool, err error) {
	r.mu.Lock()
	defer r.unlock()
	r.timer.Stop()
	for i := range r.stripes {
		st := &r.stripes[i]
		st.mu.Lock()
		st.closed = true
		st.mu.Unlock()
	}
	err = r.drain()
	if err == nil {
		for r.waiting.oldest != nil {
			r.writeFirst()
		}
		err = r.flush()
	}
	if err == nil || r.pool == nil {
		if err != nil {
			r.unstage(0, err)
		}
		if !r.o.Died {
			err = errors.Join(err, r.writeEnd(false))
		}
	}
	whole = r.closeBuffer(err)
	r.closed = true
	// A recorder that somebody keeps should keep nothing itself.
	r.spans, r.waiting, r.known, r.all, r.ready = spanTable{}, waitingRoom{entries: r.waiting.entries, spans: r.waiting.spans}, nil, nil, nil
	r.out = nil
	return whole, errors.Join(err, distinct(r.err, err))
}

// writeEnd writes the entry that marks a clean end.
func (r *Recorder) writeEnd(rotated bool) error {
	b := r.Batch()
	defer b.release()
	b.Entry(r.endEntry(rotated))
	b.seal(opLog, 0, 0, 0)
	var rec record
	rec.parse(b.buf[b.ops[0].start+8:])
	body, head, _, _ := nextBody(rec.bodies)
	r.stats.Entries.Offered++
	if _, err := r.stage(body, head, 0, nil); err != nil {
		r.drop(err, 1, 0)
		return nil // it was told before
	}
	err := r.flush()
	if err != nil {
		r.unstage(len(r.staged)-1, err)
	}
	return err
}

// endEntry is the entry that marks a clean end.
func (r *Recorder) endEntry(rotated bool) *TraceEntry {
	d := r.account().Entries.Dropped
	e := &TraceEntry{Metadata: Metadata{Name: NameEnd, Level: LevelTrace}}
	e.Attributes = append(e.Attributes,
		Attribute{AttrTime, TimeValue(time.Now())},
		Attribute{"entries", U64Value(r.next)},
		Attribute{"dropped", U64Value(d.Total())})
	d.Each(func(reason string, n uint64) {
		e.Attributes = append(e.Attributes, Attribute{"dropped." + reason, U64Value(n)})
	})
	if rotated {
		e.Attributes = append(e.Attributes, Attribute{AttrRotated, BoolValue(true)})
	}
	return e
}
