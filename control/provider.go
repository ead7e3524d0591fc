package control

import (
	"context"
	"time"

	"github.com/entrace-go/entrace/format"
	"github.com/entrace-go/entrace/internal/record"
)

// A Provider records a part of the data while one of its bits is on. A control
// calls its functions, each of which may be nil, one at a time, but Dump at any time. A provider that
// panics or returns an error is off until no trace wants it any more. The traces that want it name it
// and go on without it.
type Provider struct {
	// Provides has the bits of the provider.
	Provides Set
	// Start is called when one of the bits is switched on; s.On has those that are on. When
	// they or a parameter change while the provider runs, Stop and Start
	// are called again. Start must not block: work that takes time belongs on a goroutine
	// that Stop waits for.
	Start func(s *Session) error
	// Stop ends what Start began. It may write once more to the session, and must
	// not use it afterwards.
	Stop func() error
	// Flush writes what the provider has gathered so far, before another trace begins or ends while it
	// runs on.
	Flush func() error
	// Dump writes the present state, of the bits in s.On, when a snapshot is taken and before a stream
	// ends. The context ends when it takes too long.
	Dump func(ctx context.Context, s *Session) error
}

// A Session takes the entries of a provider: for the ring and all streams that it is on for, or for
// one trace in [Provider].Dump.
type Session struct {
	// On has the bits of the provider that are on.
	On Set
	// Params has the parameters of the configuration, by PROVIDER.NAME. The provider must not change it.
	Params map[string]string

	write  func(p record.Provider, ref format.SpanRef, at time.Time, e *format.TraceEntry) error
	failed func(error)
	open   func() openTree // nil: no span is known to be open
}

// NewSession returns a session that calls write, for the tests of providers.
func NewSession(on Set, params map[string]string, write func(p Set, ref format.SpanRef, at time.Time, e *format.TraceEntry) error) *Session {
	return &Session{On: on, Params: params, write: func(p record.Provider, ref format.SpanRef, at time.Time, e *format.TraceEntry) error {
		return write(1<<p, ref, at, e)
	}}
}

// Write records an entry of provider p, one of the bits that are on. The entry
// is below the span ref if that is in the trace, else below the entry of the
// trace itself, with the span's ids if ref is valid. Write adds the attribute
// time_unix_nano; the entry must not have it, nor trace_id and span_id. An entry below a
// span needs a message, or it would be a span. Its name must not begin with "event" or "entrace.".
//
// Write copies e. It is safe for concurrent use.
func (s *Session) Write(p Set, ref format.SpanRef, at time.Time, e *format.TraceEntry) error {
	return s.write(p.number(), ref, at, e)
}

// Innermost follows the open spans below ref in this process while each has a single child, and returns the
// last one: a goroutine that alone does the work of ref is in that span. Outside of Dump it
// returns ref.
func (s *Session) Innermost(ref format.SpanRef) format.SpanRef {
	if s.open == nil {
		return ref
	}
	return s.open().innermost(ref)
}

// Fail says that the provider cannot go on. The provider must not write any more. Fail
// returns at once, and Stop is called later.
func (s *Session) Fail(err error) {
	if s.failed != nil {
		s.failed(err)
	}
}
