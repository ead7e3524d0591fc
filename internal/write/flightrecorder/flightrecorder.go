// Package flightrecorder has the interface that span processors use to call a flight recorder.
package flightrecorder

import (
	"time"

	"github.com/entrace-go/entrace/format"
	"github.com/entrace-go/entrace/recorder"
)

// Of returns the Recorder of a *control.Control, which may be nil. Package control sets it.
var Of func(control any) Recorder

// A Recorder is the part of a flight recorder that span processors use. Span processors call the
// methods concurrently, and hold no lock.
type Recorder interface {
	// Recorder returns the recorder for the spans. inside.Batch.Ended notifies it of the end of a span.
	Recorder() *recorder.Recorder
	// WantsLabels reports whether the goroutine that begins a span should set its pprof labels span_id and
	// trace_id. From them, a profile finds the span that a goroutine works for. The parameter first says
	// that the span has no parent in this process.
	WantsLabels(first bool) bool
	// WantsMarks reports whether spans should write their ids into an execution trace of the runtime.
	WantsMarks() bool
	// WatchSpans registers the function spans, which lists open spans. The result stop unregisters the
	// function. The function spans calls fn for each open span that began before the given time, until fn
	// returns false. A span without a parent in this process has the zero SpanRef as its parent.
	WatchSpans(spans func(before time.Time, fn func(name string, span, parent format.SpanRef, start time.Time) bool)) (stop func())
}
