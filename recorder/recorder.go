package recorder

import (
	"context"
	"errors"
	"math"
	"sync"
	"sync/atomic"
	"time"

	"github.com/entrace-go/entrace/format"
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

// Append writes e below the entry e.Parent and returns the id of e. It first waits until the earlier
// records are written. Text that is not valid UTF-8 is changed: a String becomes Bytes, and in other text
// U+FFFD replaces the invalid bytes. If the recording has several files, the parent must be the root,
// because an id is valid in one file only. In a flight recorder, the parent must also be the root, and
// Append returns 0.
func (r *Recorder) Append(e *format.TraceEntry) (uint32, error) { return r.append(e, false) }

func (r *Recorder) append(e *format.TraceEntry, anchor bool) (uint32, error) {
	if r.Discards() {
		return 0, nil
	}
	if e.Metadata.Level > format.LevelError {
		r.target.Drop(format.ErrInvalid, 1, 0)
		return 0, format.ErrInvalid
	}
	at := entryTime(e)
	if at == 0 {
		at = time.Now().UnixNano()
	}
	b := r.batch()
	defer b.release()
	b.b.Reset(0, nil, nil)
	b.Entry(e)
	var rec journal.Record
	b.b.Record(&rec)
	rec.Time, rec.Info = at, record.Info(record.KindLog, uint8(record.ProviderLogs), 0, 0, 1)
	return r.target.Append(&rec, e.Parent, anchor)
}

// Resource writes the entry of a resource below the root and returns the resource. Equal entries are
// written once. Log records without a span are written below the latest resource. Resource waits for the
// disk, at most for MaxBlock. The error is [format.ErrTooLarge] if the resources are too many or too large,
// and [ErrOverflow] if the disk does not respond.
func (r *Recorder) Resource(e *format.TraceEntry) (*Resource, error) {
	res := &Resource{owner: r}
	if r.Discards() {
		return res, nil
	}
	if e.Metadata.Level > format.LevelError {
		return nil, format.ErrInvalid
	}
	b := &Batch{r: r} // no Interner: names would get numbers, and equal entries could have different bytes
	b.b.MaxText, b.b.Redact = r.maxText, r.redactor()
	b.b.Reset(0, nil, nil)
	b.Entry(e)
	number, isNew, err := r.intern.Resource(b.b.Data(), func(number uint16) { _ = r.putResource(number) })
	switch {
	case errors.Is(err, record.ErrBusy):
		return nil, ErrOverflow
	case err != nil:
		return nil, format.ErrTooLarge
	}
	res.number = number
	if !isNew {
		r.latest.Store(uint32(number))
		return res, nil
	}
	return res, r.putResource(number)
}

// putResource makes a resource the latest one, and records its existence.
func (r *Recorder) putResource(number uint16) error {
	r.latest.Store(uint32(number))
	rec := journal.Record{
		Time: time.Now().UnixNano(), Info: record.Info(record.KindResource, 0, 0, number, 0), Data: make([]byte, journal.HeadSize),
	}
	hint := r.target.NewHint()
	if err := r.target.Put(&rec, &hint, nil); err != nil && !errors.Is(err, ErrClosed) {
		return err // no loss: the writer writes the resource with the first record that needs it
	}
	return nil
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
