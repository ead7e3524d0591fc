package recorder

import (
	"context"
	"math"
	"sync"
	"sync/atomic"

	"github.com/entrace-go/entrace/internal/core/journal"
	"github.com/entrace-go/entrace/internal/core/record"
	"github.com/entrace-go/entrace/redact"
)

// A Recorder writes one trace: it streams an IET file, and makes an ET file from it when the recorder is
// closed. When a recording call has returned, its record is as safe as the [Durability] says. By default
// the record is in the journal at this moment. It is in the file a tenth of a second later, or after
// [Recorder.Flush].
//
// A Recorder is safe for concurrent use.
type Recorder struct {
	target  target // nil: everything is dropped
	intern  *record.Interner
	maxText int    // maximum size of a text in bytes: the call cuts longer texts; the writer cuts whole entries
	stream  string // the IET file
	final   string // the file that Close leaves
	reports bool   // OnError is set
	ring    bool   // the target is a ring

	on      *atomic.Uint64 // a record.Providers: the providers whose records are accepted; nil: none
	latest  atomic.Uint32  // the number of the latest Resource
	batches sync.Pool      // of *Batch

	slot *slot // the slot in which Create finds the recorder again; nil: the recorder has no file
	refs int   // number of Create calls without a Close; guarded by slotsMu
}

// A target receives the records of a Recorder. It writes them to a file, or keeps them in the ring of a
// flight recorder.
type target interface {
	// Put records r. It does not keep the bytes of r.
	Put(r *journal.Record, hint *journal.Hint, e *record.Event) error
	// Wait returns when the records of earlier calls of Put are as safe as Durability says. Callers call it
	// only if Waits returns true.
	Wait() error
	Waits() bool
	// Drop counts entries and spans that cannot be recorded because of err.
	Drop(err error, entries, spans int)
	// Append writes an entry below the entry parent and returns the id of the new entry. If anchor is set,
	// the new entry becomes the parent of later records that have no span.
	Append(r *journal.Record, parent uint32, anchor bool) (uint32, error)
	NewHint() journal.Hint
	Flush(ctx context.Context) error
	Sync(ctx context.Context) error
	Close(ctx context.Context) error
	Stats() Stats
	Err() error
	Durability() (Durability, error)
}

// newRecorder returns a recorder that passes its records to t. All options in o must have values.
func newRecorder(t target, in *record.Interner, o *Options) *Recorder {
	r := &Recorder{target: t, intern: in, maxText: o.MaxEntrySize, reports: o.OnError != nil, on: new(atomic.Uint64), refs: 1}
	r.on.Store(math.MaxUint64)
	return r
}

// TakesSpans reports whether r accepts spans. It costs one atomic load. The recorder of a flight recorder
// may accept spans and no log records, or the reverse. Any other recorder accepts everything or nothing:
// see Discards. A nil Recorder accepts nothing.
func (r *Recorder) TakesSpans() bool { return r.takes(record.ProviderSpans) }

// TakesLogs reports whether r accepts log records. See TakesSpans.
func (r *Recorder) TakesLogs() bool { return r.takes(record.ProviderLogs) }

func (r *Recorder) takes(p record.Provider) bool {
	return r != nil && r.on != nil && record.Providers(r.on.Load()).Has(p)
}

// Discard returns a recorder that accepts all records and drops them: it counts nothing and returns no
// error. Its Close does nothing.
func Discard() *Recorder { return new(Recorder) }

// Discards reports whether r drops everything, so that a caller can skip the work. It returns
// true for a nil Recorder. Create returns a nil Recorder when it fails.
func (r *Recorder) Discards() bool { return r == nil || r.target == nil }

// redactor returns the Redactor that replaces secrets, or nil if nothing is replaced.
func (r *Recorder) redactor() *redact.Redactor {
	if r.intern == nil {
		return nil
	}
	return r.intern.Redact
}

// Path returns the name of the file that Close leaves, "" for [Discard].
func (r *Recorder) Path() string { return r.final }

// StreamPath returns the name of the IET file that r is writing, "" for [Discard].
func (r *Recorder) StreamPath() string { return r.stream }

// Durability returns the current durability of records. If it differs from Options.Durability, the error
// says why.
func (r *Recorder) Durability() (Durability, error) {
	if r.Discards() {
		return DurabilityNone, nil
	}
	return r.target.Durability()
}

// Stats returns the current counts. It never waits for the disk.
func (r *Recorder) Stats() Stats {
	if r.Discards() {
		return Stats{}
	}
	s := r.target.Stats()
	r.redactor().Each(func(rule string, n uint64) {
		if s.Redacted == nil {
			s.Redacted = make(map[string]uint64)
		}
		s.Redacted[rule] += n
	})
	return s
}

// Err returns the error of the last write if it failed and will be tried again, for example because the disk is full.
// Otherwise it returns the last error that made the recorder lose entries. If there is none, Err returns
// [ErrUnlinked] while the growing file is removed or renamed, and else nil. It never waits for the disk.
// The caller need not act: Stats counts the lost entries, and the recorder tries again. It gives up only if
// a failed write left a part of an entry in the file and this part cannot be cut off.
func (r *Recorder) Err() error {
	if r.Discards() {
		return nil
	}
	return r.target.Err()
}

// Flush writes all records so far to the file, so that other processes can read them. It does not write
// spans that wait for their parents. It returns when ctx ends, at the latest.
func (r *Recorder) Flush(ctx context.Context) error {
	if r.Discards() {
		return nil
	}
	return r.target.Flush(ctx)
}

// Sync calls Flush, and then makes the content and the name of the file survive a loss of
// power. After a failure, Sync fails until a new file begins, because a disk reports lost
// data only once.
func (r *Recorder) Sync(ctx context.Context) error {
	if r.Discards() {
		return nil
	}
	return r.target.Sync(ctx)
}

// A slot holds the recorder that this process has for a path. Each path has one slot.
type slot struct {
	mu sync.Mutex // held while a recorder is made or closed

	recorder *Recorder // nil: no recorder is open
	users    int       // guarded by slotsMu; the last user removes the slot
}

var (
	slotsMu sync.Mutex // never held while a file is used
	slots   = make(map[string]*slot)
)

// enterSlot returns the slot of a stream. The caller must call leaveSlot when it no longer needs the slot.
func enterSlot(stream string) *slot {
	slotsMu.Lock()
	defer slotsMu.Unlock()
	s := slots[stream]
	if s == nil {
		s = new(slot)
		slots[stream] = s
	}
	s.users++
	return s
}

// leaveSlot removes a user of a slot, and the slot itself if no user is left.
func leaveSlot(stream string, s *slot) {
	slotsMu.Lock()
	defer slotsMu.Unlock()
	s.users--
	if s.users == 0 && slots[stream] == s {
		delete(slots, stream)
	}
}

// share reports whether r is open. It returns false while r is being closed. If r is open and shared is
// set, share adds a reference to r.
func (r *Recorder) share(shared bool) (open bool) {
	slotsMu.Lock()
	defer slotsMu.Unlock()
	open = r.refs > 0
	if open && shared {
		r.refs++
	}
	return open
}

// unref drops a reference to r and reports whether it was the last.
func (r *Recorder) unref() bool {
	slotsMu.Lock()
	defer slotsMu.Unlock()
	if r.refs == 0 {
		return false
	}
	r.refs--
	return r.refs == 0
}
