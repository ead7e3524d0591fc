package control

import (
	"fmt"
	"log/slog"
	"time"

	"github.com/entrace-go/entrace/format"
)

// A Request says that something happened. The configuration decides whether it becomes a trace, and
// which one.
type Request struct {
	Trigger Trigger
	Key     string // the text that the patterns of the configuration match
	Reason  string // for people
	// Span is the span in which it happened, if there was one.
	Span    format.SpanRef
	request string // the span that began the trace of Span, if it is known already
	// Took is the time that a span took, or has been open.
	Took time.Duration
	// Level is that of a log record.
	Level slog.Level
	// Attrs are kept in the trace's entry, under their names.
	Attrs []slog.Attr
	// Manual says that a person asked, which is not limited.
	Manual bool

	// The rest chooses among the traces that the configuration allows.

	// Name is the name of the trace in the configuration; empty: any.
	Name string
	// Mode is the mode of the trace; empty: any.
	Mode Mode
	// Window, if not zero, is how far back a snapshot goes, and Timeout when a stream ends.
	Window, Timeout time.Duration
}

// A Verdict says whether a request became a trace, or why not.
type Verdict string

// The verdicts.
const (
	VerdictStarted        Verdict = "started"
	VerdictNoConfig       Verdict = "no_config"       // no trace of the configuration is for it
	VerdictNotEnough      Verdict = "not_enough"      // it has not happened as often as count says
	VerdictSampledOut     Verdict = "sampled_out"     // one_in
	VerdictRateLimited    Verdict = "rate_limited"    // every, per_hour
	VerdictAlreadyRunning Verdict = "already_running" // the same stream
	VerdictNoSlot         Verdict = "no_slot"         // as many streams as there can be
	VerdictCoalesced      Verdict = "coalesced"       // one like it waits already
	VerdictNoProviders    Verdict = "no_providers"    // none of the trace's providers is there
	VerdictFailed         Verdict = "failed"          // the file could not be written, say
	VerdictUnfinished     Verdict = "unfinished"      // the IET is kept, the ET could not be made yet
	VerdictClosed         Verdict = "closed"          // after Shutdown
	VerdictConditionUnmet Verdict = "condition_unmet" // ended, and not kept
)

// A DeniedError says why a request did not become a trace.
type DeniedError struct {
	Request Request
	Verdict Verdict
	Trace   string // the name of the trace in the configuration, if one was found
	Err     error  // of VerdictFailed
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
	// Config returns the configuration as it is now.
	Config() (*Config, error)
	// Watch calls f with every later one, or with its error, until stop
	// is called. Stop waits for a call that runs.
	Watch(f func(*Config, error)) (stop func(), err error)
}
