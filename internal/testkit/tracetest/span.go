// Package tracetest helps tests: it records, writes and reads small traces with one call each.
package tracetest

import (
	"github.com/entrace-go/entrace/format"
	"github.com/entrace-go/entrace/recorder"
)

// A Span is a span with the entries that a test records for it.
type Span struct {
	recorder.Span

	Entry    format.TraceEntry
	Children []format.TraceEntry // the entries of its links and events
}

// Add adds a span to a batch. If the span has no time, it gets the time of its entry.
func Add(b *recorder.Batch, s *Span) {
	h := s.Span
	v, _ := s.Entry.Attribute(format.AttrTime)
	if h.Time == 0 {
		h.Time, _ = v.I64()
	}
	b.Span(&h)
	b.Entry(&s.Entry)
	entries(b, s.Children)
}

// WriteSpan records a span.
func WriteSpan(r *recorder.Recorder, s *Span) error {
	b := r.Batch()
	Add(b, s)
	return b.Write()
}

// EndSpan records the end of a span. Before the end, it records children, the entries of links and events.
func EndSpan(r *recorder.Recorder, ref format.SpanRef, children []format.TraceEntry, end *format.TraceEntry) error {
	b := r.Batch()
	b.EndSpan(ref, 0)
	entries(b, children)
	b.Entry(end)
	return b.Write()
}

func entries(b *recorder.Batch, list []format.TraceEntry) {
	for i := range list {
		b.Entry(&list[i])
	}
}
