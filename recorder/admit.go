package recorder

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/entrace-go/entrace/internal/core/journal"
)

const (
	// admitWait is how long Admit waits for room. OTLP senders give up after five or ten seconds.
	admitWait = 4 * time.Second
	// patience is how long the calls of an admitted request wait for room. It is long because a sender never
	// sends single records of a request again.
	patience = 8 * time.Second
)

// Admit reserves room in the journal of r for records of about size bytes, until leave is called. Calling
// leave twice is harmless. Admit waits a few seconds for room, which slows down the sender of the caller.
// After the first call of Admit, calls that find no room are patient: they do not give up after MaxBlock,
// so that all records of an admitted request are recorded. The error says why the caller must not record
// now. Admit is for packages of this module.
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
	select { // one request at a time, so that a large request finds room in the end
	case w.admitting <- struct{}{}:
		defer func() { <-w.admitting }()
	case <-ctx.Done():
		return nil, w.noRoom(ctx)
	}
	const pause = 2 * time.Millisecond
	need := int64(2 + (size+size/2)/journal.SegmentSize)
	for {
		if err := w.goneErr(); err != nil {
			w.now() // perhaps a new file can be made now
			return nil, err
		}
		if w.closed.Load() {
			return nil, ErrClosed
		}
		j := w.live.Load()
		used, reserved := int64(j.Used()), w.reserved.Add(need)
		// Each shard may have begun a segment. A request that is larger than the journal is admitted when no
		// other request has room reserved.
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

// errNoTurn says that a request found no room within admitWait.
var errNoTurn = errors.New("no room")

// noRoom returns why a request is not admitted, after ctx has ended.
func (w *writer) noRoom(ctx context.Context) error {
	if !errors.Is(context.Cause(ctx), errNoTurn) {
		return ctx.Err() // the sender has gone
	}
	err := w.overflow()
	w.failed(err)
	return err
}

// overflow returns an ErrOverflow that names the cause.
func (w *writer) overflow() error {
	if since := w.work.standing(); since >= w.o.MaxBlock/2 {
		return fmt.Errorf("%w: the disk has not responded for %v", ErrOverflow, since.Round(time.Millisecond))
	}
	if 2*w.work.files.Load() > w.work.total.Load() { // calls of files take most of the working time
		return fmt.Errorf("%w: the disk does not keep up", ErrOverflow)
	}
	return fmt.Errorf("%w: the processor does not keep up", ErrOverflow)
}
