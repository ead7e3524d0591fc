package control

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/entrace-go/entrace/format"
	"github.com/entrace-go/entrace/internal/core/record"
	"github.com/entrace-go/entrace/internal/write/safecall"
)

// A Provider records a part of the data while at least one of its bits is on. A control calls its functions one at a
// time, except Dump, which it may call at any time. Each function may be nil. A provider that panics or returns an
// error is off until no trace needs the provider any more. Traces that need the provider continue without it, and get
// an entry "provider off".
type Provider struct {
	// Provides has the bits of the provider.
	Provides Set
	// Start is called when a bit of the provider is switched on; s.On has the bits that are on. If the bits or a
	// parameter change while the provider runs, Stop and Start are called again. Start must not block: slow work
	// belongs on another goroutine, and Stop must wait for that goroutine.
	Start func(s *Session) error
	// Stop stops the provider. It may write to the session once more. The provider must not use the
	// session after Stop has returned.
	Stop func() error
	// Flush writes the data that the provider has collected so far. It is called before a stream begins or
	// ends. The provider continues to run.
	Flush func() error
	// Dump writes the current state of the data whose bits are set in s.On. The flight recorder calls it when it
	// makes a snapshot, and before a stream ends. The context ends if Dump takes too long.
	Dump func(ctx context.Context, s *Session) error
}

// A Session records the entries of a provider. The entries go to the ring and to all streams that have the provider.
// During [Provider].Dump the entries go to one trace.
type Session struct {
	// On has the bits of the provider that are on.
	On Set
	// Params has the parameters of the configuration, by PROVIDER.NAME. The provider must not change it.
	Params map[string]string

	write  func(p record.Provider, ref format.SpanRef, at time.Time, e *format.TraceEntry) error
	failed func(error)
	open   func() openTree // nil: the open spans are not known
}

// NewSession returns a session that calls write. It is for tests of providers.
func NewSession(on Set, params map[string]string, write func(p Set, ref format.SpanRef, at time.Time, e *format.TraceEntry) error) *Session {
	return &Session{On: on, Params: params, write: func(p record.Provider, ref format.SpanRef, at time.Time, e *format.TraceEntry) error {
		return write(1<<p, ref, at, e)
	}}
}

// Write records an entry of provider p, which must be a bit that is on. If the span ref is in the trace, the entry is
// below this span. Otherwise the entry is below the entry of the trace itself, and has the ids of the span if ref is
// valid. Write adds the attribute time_unix_nano; the entry must not have the attributes time_unix_nano, trace_id and
// span_id. An entry below a span needs a message, because an entry without a message would count as a span. Its name
// must not begin with "event" or "entrace.".
//
// Write copies e. It is safe for concurrent use.
func (s *Session) Write(p Set, ref format.SpanRef, at time.Time, e *format.TraceEntry) error {
	return s.write(p.number(), ref, at, e)
}

// Innermost follows the open spans of this process from ref downward, as long as each has exactly one open child. It
// returns the last span of this chain. If a single goroutine does the work of ref, it is in this last span. Outside
// of Dump, Innermost returns ref.
func (s *Session) Innermost(ref format.SpanRef) format.SpanRef {
	if s.open == nil {
		return ref
	}
	return s.open().innermost(ref)
}

// Fail reports that the provider cannot continue. After that, the provider must not write. Fail returns at
// once; Stop is called later.
func (s *Session) Fail(err error) {
	if s.failed != nil {
		s.failed(err)
	}
}

// A member is a provider with its state. Control.calling guards all fields except busy.
type member struct {
	Provider

	on      Set // 0: the provider does not run
	params  map[string]string
	err     error // why the provider has failed; nil: it can run
	session *Session
	busy    atomic.Bool // a call of Dump has not returned
}

// stop stops the provider.
func (m *member) stop() error {
	m.on = 0
	if m.Stop == nil {
		return nil
	}
	return safecall.Run(m.Stop)
}
