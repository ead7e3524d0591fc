// Package flight has what a span processor and a flight recorder say to each other.
package flight

import (
	"time"

	"github.com/entrace-go/entrace/format"
	"github.com/entrace-go/entrace/recorder"
)

// A Recorder is a flight recorder, as far as a span processor needs it: Flight of a *control.Control
// returns one. Its methods are called with no lock held, concurrently.
type Recorder interface {
	// Recorder returns the recorder that takes the spans.
	Recorder() *recorder.Recorder
	// WantsLabels reports whether the goroutine that begins a span is to get the labels
	// span_id and trace_id, by which profiles tell whose work it does. First says that the
	// span begins a local trace.
	WantsLabels(first bool) bool
	// SpanEnded tells of a span that has ended and is recorded.
	SpanEnded(name string, span format.SpanRef, took time.Duration)
	// SpanPanicked tells of a span that has ended, and is recorded, because its goroutine panics,
	// and with what.
	SpanPanicked(name string, span format.SpanRef, text string)
	// WatchSpans hands over what tells of the spans that are open, until stop is called: it
	// passes those that began before a time to fn until that returns false. The parent of a span
	// that begins a local trace is the zero SpanRef.
	WatchSpans(spans func(before time.Time, fn func(name string, span, parent format.SpanRef, start time.Time) bool)) (stop func())
}
