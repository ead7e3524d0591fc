package control

import (
	"fmt"
	"log/slog"
	"time"

	"github.com/entrace-go/entrace/format"
)

// A Request describes an event in the process. The configuration decides whether the request becomes a trace,
// and which trace.
type Request struct {
	Trigger Trigger
	Key     string // the text that the patterns of the configuration match
	Reason  string // a text for people; it does not affect decisions
	// Span is the span in which the event happened. The zero SpanRef means no span.
	Span    format.SpanRef
	request string // the name of the span that began the trace of Span; "" if the name must still be found
	// Took is the duration of the span, or how long it has been open.
	Took time.Duration
	// Level is the level of the log record that made the request.
	Level slog.Level
	// Attrs are stored in the first entry of the trace, as request.attr.KEY.
	Attrs []slog.Attr
	// Manual is true if a person made the request. Manual requests are not limited.
	Manual bool

	// The following fields select among the traces of the configuration.

	// Name is the name of the trace in the configuration; "" matches any name.
	Name string
	// Mode is the mode of the trace; "" matches any mode.
	Mode Mode
	// Window, if not zero, is how far back a snapshot goes. Timeout, if not zero, is how long a
	// stream runs.
	Window, Timeout time.Duration
}

// same reports whether r and the request other have the same trigger and key.
func (r *Request) same(other *Request) bool { return r.Trigger == other.Trigger && r.Key == other.Key }

// A Verdict says whether a request became a trace, and if not, why.
type Verdict string

// The verdicts.
const (
	VerdictStarted        Verdict = "started"
	VerdictNoConfig       Verdict = "no_config"       // no trace of the configuration matches the request
	VerdictNotEnough      Verdict = "not_enough"      // fewer matching requests than count
	VerdictSampledOut     Verdict = "sampled_out"     // because of one_in
	VerdictRateLimited    Verdict = "rate_limited"    // because of every or per_hour
	VerdictAlreadyRunning Verdict = "already_running" // the same stream is running already
	VerdictNoSlot         Verdict = "no_slot"         // the maximum number of streams is running
	VerdictCoalesced      Verdict = "coalesced"       // a request for the same trace is already waiting
	VerdictNoProviders    Verdict = "no_providers"    // the control lacks all providers of the trace
	VerdictFailed         Verdict = "failed"          // for example, the file could not be written
	VerdictUnfinished     Verdict = "unfinished"      // the IET is kept, but the ET could not be made yet
	VerdictClosed         Verdict = "closed"          // after Shutdown
	VerdictConditionUnmet Verdict = "condition_unmet" // the trace ended and was not kept
)

// A DeniedError says why a request did not become a trace.
type DeniedError struct {
	Request Request
	Verdict Verdict
	Trace   string // the name of the trace in the configuration, if one was found
	Err     error  // set for VerdictFailed
}

func (e *DeniedError) Error() string {
	s := fmt.Sprintf("no trace for %s %q: %s", e.Request.Trigger, e.Request.Key, e.Verdict)
	if e.Trace != "" {
		s += " (" + e.Trace + ")"
	}
	if e.Err != nil {
		s += ": " + e.Err.Error()
	}
	return s
}

// Unwrap returns Err.
func (e *DeniedError) Unwrap() error { return e.Err }

// A Source supplies configurations.
type Source interface {
	// Config returns the current configuration.
	Config() (*Config, error)
	// Watch calls f with each later configuration, or with an error, until stop is called. stop waits for a
	// running call of f.
	Watch(f func(*Config, error)) (stop func(), err error)
}
