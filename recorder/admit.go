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

func (r insideRecorder) Admit(ctx context.Context, size int) (leave func(), err error) {
	if w, ok := r.target.(*writer); ok {
		return w.admit(ctx, size)
	}
	return func() {}, nil
}

func (in *intake) admit(ctx context.Context, size int) (leave func(), err error) {
	in.patient.Store(true)
	ctx, cancel := context.WithTimeoutCause(ctx, admitWait, errNoTurn)
	defer cancel()
	select { // one request at a time, so that small requests cannot keep the room from a large one
	case in.admitting <- struct{}{}:
		defer func() { <-in.admitting }()
	case <-ctx.Done():
		return nil, in.noRoom(ctx)
	}
	const pause = 2 * time.Millisecond
	need := int64(2 + (size+size/2)/journal.SegmentSize)
	for {
		if err := in.goneErr(); err != nil {
			in.now() // the writer tries again to make a new file
			return nil, err
		}
		if in.closed.Load() {
			return nil, ErrClosed
		}
		j := in.live.Load()
		used, reserved := int64(j.Used()), in.reserved.Add(need)
		// j.Shards() segments may be in use, one in each shard, although they are nearly empty. A request
		// that is larger than the journal is admitted if no other request has reserved room.
		if used+reserved <= int64(j.Segments()) || reserved == need && used <= int64(j.Shards()) {
			return func() {
				in.reserved.Add(-need)
				need = 0
			}, nil
		}
		in.reserved.Add(-need)
		in.now()
		if _, err := in.flushed(); err != nil {
			return nil, err // for example, the disk is full
		}
		select {
		case <-ctx.Done():
			return nil, in.noRoom(ctx)
		case <-time.After(pause):
		}
	}
}

// errNoTurn means that a request found no room within admitWait.
var errNoTurn = errors.New("no room")

// noRoom returns the error of a request that is not admitted. ctx has ended.
func (in *intake) noRoom(ctx context.Context) error {
	if !errors.Is(context.Cause(ctx), errNoTurn) {
		return ctx.Err() // the sender has ended the request
	}
	err := in.overflow()
	in.failed(err)
	return err
}

// overflow returns an ErrOverflow that says whether the disk or the CPU is too slow.
func (in *intake) overflow() error {
	if since := in.work.standing(); since >= in.o.MaxBlock/2 {
		return fmt.Errorf("%w: the disk has not responded for %v", ErrOverflow, since.Round(time.Millisecond))
	}
	if 2*in.work.files.Load() > in.work.total.Load() { // most of the working time is spent in calls of files
		return fmt.Errorf("%w: the disk does not keep up", ErrOverflow)
	}
	return fmt.Errorf("%w: the CPU does not keep up", ErrOverflow)
}
