package recorder

import (
	"context"
	"errors"
	"time"

	"github.com/entrace-go/entrace/internal/core/journal"
)

// admitWait is how long admit waits for room. OTLP senders stop waiting for an answer after five or ten seconds.
const admitWait = 4 * time.Second

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
