// Package flightrecorder has the interface through which a span processor calls a flight recorder.
package flightrecorder

import (
	"time"

	"github.com/entrace-go/entrace/format"
	"github.com/entrace-go/entrace/recorder"
)

// A Recorder is the part of a flight recorder that a span processor calls. The method Flight of
// *control.Control returns one. The methods are called concurrently, with no lock held.
type Recorder interface {
	// Recorder returns the recorder for the spans.
	Recorder() *recorder.Recorder
	// WantsLabels reports whether the goroutine that begins a span should get the labels span_id
	// and trace_id. Profiles use these labels to find the span that a goroutine works for. If
	// first is true, the span begins a local trace.
	WantsLabels(first bool) bool
	// WantsMarks reports whether spans should write their ids into an execution trace of the runtime.
	WantsMarks() bool
	// SpanEnded reports a span that has ended and has been recorded, and its duration.
	SpanEnded(name string, span format.SpanRef, took time.Duration)
	// SpanPanicked reports a span that ended because its goroutine panics. The span has been
	// recorded. text is the text of the panic.
	SpanPanicked(name string, span format.SpanRef, text string)
	// WatchSpans registers the function spans, which lists the open spans. The function stop
	// unregisters it. spans calls fn for each open span that began before the given time, until fn
	// returns false. The parent of a span that begins a local trace is the zero SpanRef.
	WatchSpans(spans func(before time.Time, fn func(name string, span, parent format.SpanRef, start time.Time) bool)) (stop func())
}
