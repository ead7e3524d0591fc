package recorder

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"github.com/entrace-go/entrace/format"
	"github.com/entrace-go/entrace/internal/core/placer"
)

// A Tee receives the entries that a [Recorder] writes to its file, as soon as they are in the file. Package
// remote has a Tee that sends them over the network. The methods of a Tee are called one at a time, on a
// goroutine of their own. While a method does not return, entries of up to 8 MiB wait. Further entries do
// not reach the Tee, and OnError is called once with [ErrOverflow].
type Tee interface {
	// Begin reports the beginning of a file of version v. When a rotation begins the next file, Begin is
	// called again. Ids count from 0 in each file. The entry with id 0 is the root, which Take does not
	// get.
	Begin(v format.Version)
	// Take receives entries in the order of their ids. It must not keep the slice or the bytes of the
	// entries after it has returned.
	Take(entries []TeeEntry)
	// Close is called during the last [Recorder.Close], after the last Take.
	Close(ctx context.Context) error
}

// A TeeEntry is an entry that a [Recorder] has written.
type TeeEntry struct {
	ID, Parent uint32
	Ref        format.SpanRef // set for the entry of a span; zero for other entries, also for the end of a span
	Resource   bool           // the entry was written by [Recorder.Resource]
	Raw        []byte         // the encoded entry
}

// A teeQueue passes entries to a Tee.
type teeQueue struct {
	tee    Tee
	calls  callbacks
	lost   bool        // the queue had no room for the last entries
	closes atomic.Bool // close was called; the file is finished, but entries may still wait for the Tee
}

// errTeeBusy means that the Tee does not get entries, because its methods are too slow.
var errTeeBusy = fmt.Errorf("the Tee (the copy of this recording) is too slow and misses entries: %w", ErrOverflow)

// errTeeClose means that Tee.Close did not return normally.
var errTeeClose = errors.New("Tee.Close panicked or ended its goroutine")

// begin queues a call of Tee.Begin.
func (t *teeQueue) begin(v format.Version) { t.calls.mustPost("Tee.Begin", func() { t.tee.Begin(v) }) }

// take queues a call of Tee.Take with the entries, whose encodings are in b. If the queue has no room, take
// drops the entries. It returns an error for the first of several calls in a row that drop entries.
func (t *teeQueue) take(b []byte, entries []placer.Staged) error {
	list := make([]TeeEntry, 0, len(entries))
	raw := slices.Clone(b[:entries[len(entries)-1].End])
	from := 0
	for i := range entries {
		e := &entries[i]
		if e.ID > 0 {
			t := TeeEntry{ID: e.ID, Parent: e.Parent, Resource: e.IsResource, Raw: raw[from:e.End:e.End]}
			if e.IsSpan {
				t.Ref = format.SpanRef{TraceID: [16]byte(e.Ref.TraceID()), SpanID: [8]byte(e.Ref.SpanID())}
			}
			list = append(list, t)
		}
		from = e.End
	}
	if len(list) == 0 {
		return nil
	}
	if t.calls.post("Tee.Take", len(raw), func() { t.tee.Take(list) }) {
		t.lost = false
		return nil
	}
	if t.lost {
		return nil
	}
	t.lost = true
	return errTeeBusy
}

// close calls Tee.Close after the Tee has received all entries. If a method of the Tee does not return,
// perhaps because it has itself called Recorder.Close, close returns early, and Tee.Close is called later.
// If t is nil, close does nothing.
func (t *teeQueue) close(ctx context.Context) error {
	if t == nil {
		return nil
	}
	t.closes.Store(true)
	var closing atomic.Bool
	done := make(chan error, 1)
	t.calls.mustPost("Tee.Close", func() {
		closing.Store(true)
		err := errTeeClose
		defer func() { done <- err }()
		err = t.tee.Close(ctx)
	})
	tick := time.NewTicker(callbackGrace / 20)
	defer tick.Stop()
	for {
		select {
		case err := <-done:
			return err
		case <-tick.C:
			if (ctx.Err() != nil || !closing.Load()) && t.calls.runningFor() > callbackGrace {
				return errTeeBusy
			}
		}
	}
}
