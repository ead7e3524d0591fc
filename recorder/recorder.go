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

// A Recorder writes one trace: it streams an IET file and turns it into an ET
// file when it is closed. Once a call has returned, its record survives what the
// [Durability] says. By default the record is in the journal then, and in the file a
// tenth of a second later, or after [Recorder.Flush].
//
// A Recorder is safe for concurrent use.
type Recorder struct {
	target  target // nil: everything is dropped
	intern  *record.Interner
	maxText int    // above which a text is cut at once; the whole entry is cut when it is written
	stream  string // the IET file
	final   string // the file that Close leaves
	reports bool   // OnError is set
	ring    bool   // the target is a ring

	on      *atomic.Uint64 // the record.Providers that are taken; nil: none
	latest  atomic.Uint32  // the number of the latest Resource
	batches sync.Pool      // of *Batch

	slot *slot // where Create finds the recorder again; nil: nowhere
	refs int   // guarded by slot.mu
}

// A target takes the records of a Recorder: to write them to a file, or to keep them in the ring of a flight recorder.
type target interface {
	// Put takes a record, whose bytes it does not keep.
	Put(r *journal.Record, hint *journal.Hint, e *record.LogEvent) error
	// Wait returns when the records of Put are as safe as Durability says. It is called if Waits.
	Wait() error
	Waits() bool
	// Drop counts what cannot be recorded because of err.
	Drop(err error, entries, spans int)
	// Append takes an entry below another one.
	Append(r *journal.Record, parent uint32, anchor bool) (uint32, error)
	NewHint() journal.Hint
	Flush(ctx context.Context) error
	Sync(ctx context.Context) error
	Close(ctx context.Context) error
	Stats() Stats
	Err() error
	Durability() (Durability, error)
}

// newRecorder returns a recorder that hands its records to t. Nothing is left open in o.
func newRecorder(t target, in *record.Interner, o *Options) *Recorder {
	r := &Recorder{target: t, intern: in, maxText: o.MaxEntrySize, reports: o.OnError != nil, on: new(atomic.Uint64), refs: 1}
	r.on.Store(math.MaxUint64)
	return r
}

// TakesSpans reports whether r takes spans, which is one atomic load. All recorders except
// that of a flight recorder take everything, or nothing: see Discards. A nil Recorder takes
// nothing.
func (r *Recorder) TakesSpans() bool { return r.takes(record.ProviderSpans) }

// TakesLogs reports the same of log records.
func (r *Recorder) TakesLogs() bool { return r.takes(record.ProviderLogs) }

func (r *Recorder) takes(p record.Provider) bool {
	return r != nil && r.on != nil && record.Providers(r.on.Load()).Has(p)
}

func newHint(r *Recorder) journal.Hint {
	if r.target == nil {
		return 0
	}
	return r.target.NewHint()
}

// waits reports whether a call has to wait for a file.
func (r *Recorder) waits() bool { return r.target != nil && r.target.Waits() }

// Discard returns a recorder that takes everything and drops it, without
// counting and without error. Close does nothing.
func Discard() *Recorder { return new(Recorder) }

// Discards reports whether r drops everything, so that a caller may save itself the work.
// It is true for a nil Recorder, which Create returns when it fails.
func (r *Recorder) Discards() bool { return r == nil || r.target == nil }

// redactor returns what replaces secrets, nil if nothing does.
func (r *Recorder) redactor() *redact.Redactor {
	if r.intern == nil {
		return nil
	}
	return r.intern.Redact
}

// IsRing reports whether what is recorded goes to the ring of a flight recorder.
func (r *Recorder) IsRing() bool { return r != nil && r.ring }

// Path returns the file that Close leaves, "" for [Discard].
func (r *Recorder) Path() string { return r.final }

// StreamPath returns the IET file that is written now, "" for [Discard].
func (r *Recorder) StreamPath() string { return r.stream }

// Durability returns what records survive. If that is not what Options asked for, the
// error says why.
func (r *Recorder) Durability() (Durability, error) {
	if r.Discards() {
		return DurabilityBuffered, nil
	}
	return r.target.Durability()
}

// Stats returns the account as it is now. It waits for nothing.
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

// Err returns the last error that cost entries, else [ErrUnlinked] while the file
// has lost its name, else nil. It waits for nothing. Nothing needs to be done about it:
// the recorder tries again, unless the file cannot even be cut back to its whole entries,
// and Stats counts what was lost.
func (r *Recorder) Err() error {
	if r.Discards() {
		return nil
	}
	return r.target.Err()
}

// HasOnError reports whether OnError is set. If it is, callers need not report the error of
// Err.
func (r *Recorder) HasOnError() bool { return r.reports }

// Append writes e below the entry e.Parent and returns its id. It first waits until
// the earlier records are written. Text that is not valid UTF-8 is changed: a String
// becomes Bytes, and in other text U+FFFD replaces the invalid bytes. In a recording that
// rotates, ids are valid for one file only, so the parent must be the root. In a flight
// recorder the parent must be the root too, and the id is 0.
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

// Resource writes the entry of a resource below the root and returns the resource. Equal
// entries are written once. Log records without a span go below the latest resource. Resource
// waits for a file no longer than MaxBlock. The error is [format.ErrTooLarge] if there are too
// many resources, or too large ones, and [ErrOverflow] if a file does not answer.
func (r *Recorder) Resource(e *format.TraceEntry) (*Resource, error) {
	res := &Resource{owner: r}
	if r.Discards() {
		return res, nil
	}
	if e.Metadata.Level > format.LevelError {
		return nil, format.ErrInvalid
	}
	b := &Batch{r: r} // without numbers, so that equal entries are equal bytes
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

// putResource makes a resource the latest, and records that it is there.
func (r *Recorder) putResource(number uint16) error {
	r.latest.Store(uint32(number))
	rec := journal.Record{
		Time: time.Now().UnixNano(), Info: record.Info(record.KindResource, 0, 0, number, 0), Data: make([]byte, journal.HeadSize),
	}
	hint := newHint(r)
	if err := r.target.Put(&rec, &hint, nil); err != nil && !errors.Is(err, ErrClosed) {
		return err // whoever needs it writes it
	}
	return nil
}

// Flush writes the records so far to the file, so that other processes can read them
// there. It does not write spans that wait for their parents. It waits at most until ctx ends.
func (r *Recorder) Flush(ctx context.Context) error {
	if r.Discards() {
		return nil
	}
	return r.target.Flush(ctx)
}

// Sync calls Flush, and then makes the file's contents and its name survive a loss of
// power. After a first failure Sync fails until a new file begins, because a disk reports
// lost data only once.
func (r *Recorder) Sync(ctx context.Context) error {
	if r.Discards() {
		return nil
	}
	return r.target.Sync(ctx)
}
