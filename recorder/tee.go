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

// A Tee gets what a [Recorder] writes to its file, as soon as it is there: package
// remote sends it over the network. Its methods are called one at a time, on a goroutine
// of their own. While they do not return, up to 8 MiB wait for them; entries that come
// then do not reach the Tee, and OnError is told of [ErrOverflow] once.
type Tee interface {
	// Begin says that a file of version v begins. Its ids count from its root, which
	// has id 0 and is not handed over. After a rotation Begin is called again for the
	// next file.
	Begin(v format.Version)
	// Take gets entries in the order of their ids. It must keep neither the slice nor
	// the bytes of the entries.
	Take(entries []TeeEntry)
	// Close is called by the last [Recorder.Close], after the last Take.
	Close(ctx context.Context) error
}

// A TeeEntry is an entry that a [Recorder] has written.
type TeeEntry struct {
	ID, Parent uint32
	Ref        format.SpanRef // of a span; zero for others, and for a span's end
	Resource   bool           // it is a [Recorder.Resource]
	Raw        []byte         // its encoding
}

// A teeQueue hands entries to a Tee.
type teeQueue struct {
	tee    Tee
	calls  callbacks
	lost   bool        // the last entries found no room
	closes atomic.Bool // the file is finished, and the Tee is still to take entries
}

// errTeeBusy says why entries do not reach a Tee.
var errTeeBusy = fmt.Errorf("the Tee does not accept the entries: %w", ErrOverflow)

// errTeeClose says why a Tee may not be closed.
var errTeeClose = errors.New("Tee.Close panicked or ended its goroutine")

// begin tells the Tee of a file.
func (t *teeQueue) begin(v format.Version) { t.calls.mustPost("Tee.Begin", func() { t.tee.Begin(v) }) }

// take hands entries to the Tee, whose encodings are in b. The error says once that there
// is no room for them.
func (t *teeQueue) take(b []byte, entries []placer.Staged) error {
	list := make([]TeeEntry, 0, len(entries))
	raw := slices.Clone(b[:entries[len(entries)-1].End])
	from := 0
	for i := range entries {
		e := &entries[i]
		if e.ID > 0 {
			t := TeeEntry{ID: e.ID, Parent: e.Parent, Resource: e.IsResource, Raw: raw[from:e.End:e.End]}
			if e.IsSpan {
				t.Ref = refOf(&e.Ref)
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

// close ends the Tee when it has got everything. It returns early if a method of the Tee
// does not return, which may be because it calls Close itself: the Tee is closed later
// then.
func (t *teeQueue) close(ctx context.Context) error {
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
