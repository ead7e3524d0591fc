package receive

import (
	"cmp"
	"errors"
	"fmt"
	"slices"

	"github.com/entrace-go/entrace/format"
	"github.com/entrace-go/entrace/internal/otel"
	"github.com/entrace-go/entrace/internal/write/inside"
	"github.com/entrace-go/entrace/recorder"
)

var (
	// ErrFull says that no record of a request was accepted, but that the sender may try again.
	ErrFull = errors.New("the receiver has no room for more records")
	// ErrNoID is the reason for refusing a span that has no trace id or no span id.
	ErrNoID = errors.New("the span has no id")

	errScope = errors.New("the output would be too large, because each record repeats its scope")
)

// A Result says how many records of a request were accepted.
type Result struct {
	Taken   int
	Refused int
	Why     error // the reason for the first refused record
}

// Refuse counts n more records that were refused because of err.
func (r *Result) Refuse(n int, err error) {
	r.Refused += n
	r.Why = cmp.Or(r.Why, err)
}

// The limits for the size of all copies of scopes, in bytes: scopesFloor, plus scopesFactor times the size of the
// request. A request has a scope once, but each entry has a copy of it.
const (
	scopesFloor  = 64 << 20
	scopesFactor = 16
)

// A writer writes the records of one request after the other to a recorder. Only one goroutine at a time may use
// it.
type writer struct {
	rec      *recorder.Recorder
	batch    *recorder.Batch
	inside   inside.Batch       // of batch
	resource *recorder.Resource // nil: records go below the root
	scope    otel.Scope
	scopes   *int64 // number of bytes of copies of scopes that may still be written
	done     Result

	// Elsewhere says that the parent of the next span is in another file.
	Elsewhere bool
}

// Scope sets the scope of the next n records, and reports whether they may be written. If not, it counts these
// records as refused.
func (w *writer) Scope(s *otel.Scope, n int) bool {
	size := len(s.Name) + len(s.Version) + len(s.SchemaURL)
	for i := range s.Attributes {
		size += numberSize + len(s.Attributes[i].Name) + len(s.Attributes[i].Value.Text())
	}
	*w.scopes -= int64(size) * int64(n)
	if *w.scopes < 0 {
		w.done.Refuse(n, errScope)
		return false
	}
	w.scope = *s
	return true
}

// numberSize is the assumed size of a value that is not text.
const numberSize = 8

// below is the place of all entries of a batch: the recorder finds the parent of an entry, and adds the ids that do
// not follow from the parent.
var below = otel.Where{Trace: true, Parent: true}

// remoteParent is the flag of a span whose parent is in another process.
const remoteParent = 0x200

// Span writes a span with its links and events, in the current scope.
func (w *writer) Span(s *otel.Span) {
	h := recorder.Span{
		Ref: format.SpanRef{TraceID: s.TraceID, SpanID: s.SpanID}, Resource: w.resource, Time: s.Start, Remote: s.Flags&remoteParent != 0,
	}
	if !h.Ref.IsValid() {
		w.done.Refuse(1, ErrNoID)
		return
	}
	if s.Parent != [8]byte{} {
		h.Parent = format.SpanRef{TraceID: s.TraceID, SpanID: s.Parent}
	}
	h.Wait = !h.Remote && !w.Elsewhere
	s.Scope = w.scope
	w.batch.Span(&h)
	s.Write(w.inside, below, &s.Attributes)
	for i := range s.Links {
		s.Links[i].Write(w.inside, s.Scope.Name, &s.Links[i].Attributes)
	}
	for i := range s.Events {
		s.Events[i].Write(w.inside, s.Scope.Name, &s.Events[i].Attributes)
	}
	w.done.Taken++
}

// Log writes a log record in the current scope.
func (w *writer) Log(l *otel.Log) {
	ref, where := format.SpanRef{TraceID: l.TraceID, SpanID: l.SpanID}, below
	if !ref.IsValid() {
		where = otel.Where{} // the recorder refuses an incomplete id
	}
	at := l.Time
	if !l.HasTime {
		at = l.Observed
	}
	l.Scope = w.scope
	w.batch.Log(ref, at)
	w.batch.Below(w.resource)
	l.Write(w.inside, where, &l.Attributes)
	w.done.Taken++
}

// End ends a request. When it returns, the accepted records are as safe as the durability of the recorder says. The
// error is [ErrFull] if the recorder has not accepted all records but may do so later; in this case the sender sends
// the whole request again. Because the recorder has admitted the request, this happens only if the disk does not
// respond for a long time.
func (w *writer) End() (Result, error) {
	err := w.batch.Write()
	refused, ok := errors.AsType[*recorder.RefusedError](err)
	if !ok {
		return w.done, nil
	}
	w.done.Refuse(refused.Records, err)
	w.done.Taken -= refused.Records
	later := slices.ContainsFunc(refused.Errs, func(err error) bool {
		return !errors.Is(err, format.ErrTooLarge) && !errors.Is(err, format.ErrInvalid)
	})
	if later {
		return Result{}, fmt.Errorf("%w: %w", ErrFull, w.done.Why)
	}
	return w.done, nil
}
