package recorder

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/entrace-go/entrace/internal/core/journal"
)

const (
	// admitWait is how long Admit waits for room. OTLP senders stop waiting for an answer after five or ten
	// seconds.
	admitWait = 4 * time.Second
	// patience is how long the calls of an admitted request wait for room. It is long because a sender
	// cannot send a part of a request again.
	patience = 8 * time.Second
)

// Admit reserves room in the journal of r for records of about size bytes, until leave is called. It is
// harmless to call leave twice. Admit waits a few seconds for room, to slow down the caller's sender. If it
// fails, the error says why the caller must not record now. The first call of Admit also changes r:
// recording calls that find no room wait longer than MaxBlock, so that all records of an admitted request
// are recorded. Admit is for packages of this module.
func (r *Recorder) Admit(ctx context.Context, size int) (leave func(), err error) {
	if w, ok := r.target.(*writer); ok {
		return w.admit(ctx, size)
	}
	return func() {}, nil
}

func (w *writer) admit(ctx context.Context, size int) (leave func(), err error) {
	w.patient.Store(true)
	ctx, cancel := context.WithTimeoutCause(ctx, admitWait, errNoTurn)
	defer cancel()
	select { // one request at a time, so that small requests cannot keep the room from a large one
	case w.admitting <- struct{}{}:
		defer func() { <-w.admitting }()
	case <-ctx.Done():
		return nil, w.noRoom(ctx)
	}
	const pause = 2 * time.Millisecond
	need := int64(2 + (size+size/2)/journal.SegmentSize)
	for {
		if err := w.goneErr(); err != nil {
			w.now() // the writer tries again to make a new file
			return nil, err
		}
		if w.closed.Load() {
			return nil, ErrClosed
		}
		j := w.live.Load()
		used, reserved := int64(j.Used()), w.reserved.Add(need)
		// j.Shards() segments may be in use, one in each shard, although they are nearly empty. A request
		// that is larger than the journal is admitted if no other request has reserved room.
		if used+reserved <= int64(j.Segments()) || reserved == need && used <= int64(j.Shards()) {
			return func() {
				w.reserved.Add(-need)
				need = 0
			}, nil
		}
		w.reserved.Add(-need)
		w.now()
		if _, err := w.flushed(); err != nil {
			return nil, err // for example, the disk is full
		}
		select {
		case <-ctx.Done():
			return nil, w.noRoom(ctx)
		case <-time.After(pause):
		}
	}
}

// errNoTurn means that a request found no room within admitWait.
var errNoTurn = errors.New("no room")

// noRoom returns the error of a request that is not admitted. ctx has ended.
func (w *writer) noRoom(ctx context.Context) error {
	if !errors.Is(context.Cause(ctx), errNoTurn) {
		return ctx.Err() // the sender has ended the request
	}
	err := w.overflow()
	w.failed(err)
	return err
}

// overflow returns an ErrOverflow that says whether the disk or the CPU is too slow.
func (w *writer) overflow() error {
	if since := w.work.standing(); since >= w.o.MaxBlock/2 {
		return fmt.Errorf("%w: the disk has not responded for %v", ErrOverflow, since.Round(time.Millisecond))
	}
	if 2*w.work.files.Load() > w.work.total.Load() { // most of the working time is spent in calls of files
		return fmt.Errorf("%w: the disk does not keep up", ErrOverflow)
	}
	return fmt.Errorf("%w: the CPU does not keep up", ErrOverflow)
}
