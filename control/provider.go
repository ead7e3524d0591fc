package control

import (
	"context"
	"time"

	"github.com/entrace-go/entrace/format"
	"github.com/entrace-go/entrace/internal/record"
)

// A Provider records a part of the data while one of its bits is on. A control
// calls its functions, each of which may be nil, one at a time, but for Dump, which runs beside them.
// What panics or returns an error is switched off until no trace wants it any more, and is named in the
// traces that do; those go on without.
type Provider struct {
	// Provides has the bits of the provider.
	Provides Set
	// Start is called when something of Provides is on that was off: s.On says
	// what. When that or a parameter changes while the provider runs, Stop and Start
	// are called again. It must not block; what takes time is for a goroutine
	// that Stop waits for.
	Start func(s *Session) error
	// Stop ends what Start began. It may write once more to the session, and must
	// not use it afterwards.
	Stop func() error
	// Flush writes what the provider has gathered so far, before another trace begins or ends while it
	// runs on.
	Flush func() error
	// Dump writes what there is now: when a snapshot is taken, and before a stream ends. It writes to s,
	// whose On says which of the bits are wanted. The context ends when it takes too long.
	Dump func(ctx context.Context, s *Session) error
}

// A Session is where a provider writes to: all that is on for it at the time, or
// one trace for [Provider].Dump.
type Session struct {
	on     Set
	params map[string]string
	write  func(p record.Provider, ref format.SpanRef, at time.Time, e *format.TraceEntry) error
	failed func(error)
	open   func() openTree // nil: no span is known to be open
}

// NewSession returns a session that writes to what write does, for the tests of
// providers.
func NewSession(on Set, params map[string]string, write func(p Set, ref format.SpanRef, at time.Time, e *format.TraceEntry) error) *Session {
	return &Session{on: on, params: params, write: func(p record.Provider, ref format.SpanRef, at time.Time, e *format.TraceEntry) error {
		return write(1<<p, ref, at, e)
	}}
}

// On returns which bits of the provider are on.
func (s *Session) On() Set { return s.on }

// Write records an entry of provider p, which is one bit of those that are on. It
// goes below the span ref if that is in the trace, else below the entry of the
// trace itself, with the span's ids if ref is valid. The entry gets the attribute
// time_unix_nano and must not have it, nor trace_id and span_id. An entry that is
// to hang below a span needs a message, which tells it from a span. Its name must not begin with "event" nor "entrace.".
//
// Write copies e. It is safe for concurrent use.
func (s *Session) Write(p Set, ref format.SpanRef, at time.Time, e *format.TraceEntry) error {
	return s.write(p.number(), ref, at, e)
}

// Innermost returns the open span that a goroutine is in which does the work of span ref alone:
// as long as a span has a single open child in this process, the child. It returns ref where it
// has none or several, and outside of Dump.
func (s *Session) Innermost(ref format.SpanRef) format.SpanRef {
	if s.open == nil {
		return ref
	}
	return s.open().innermost(ref)
}

// Fail tells that the provider cannot go on; it must not write any more. It
// returns at once, and Stop is called later.
func (s *Session) Fail(err error) {
	if s.failed != nil {
		s.failed(err)
	}
}

// Param returns a parameter of the trace's configuration, "" if it is not set. It
// is called PROVIDER.NAME.
func (s *Session) Param(name string) string { return s.params[name] }
