package exporter

import (
	"context"
	"encoding/hex"
	"runtime/trace"
	"time"

	sdktrace "go.opentelemetry.io/otel/sdk/trace"
)

// Categories of the log messages, called marks, that put the ids of spans into an execution trace of the
// runtime. The SDK begins a trace task for each span. The task has the span's name but not its id, so a mark
// with the id is logged right before the task begins. If a span was open for at least markEndAfter, its task
// may have begun before the trace did, so a mark is also logged at the end of the span.
const (
	markStart = "otel.span"
	markEnd   = "otel.end"

	markEndAfter = time.Second
)

// mark logs a mark of the span s, which has begun or ended, if a mark is needed.
func (p *SpanProcessor) mark(ctx context.Context, s sdktrace.ReadOnlySpan, at moment) {
	if !trace.IsEnabled() || p.flight != nil && !p.flight.WantsMarks() {
		return
	}
	category := markStart
	if at != momentStart {
		if s.EndTime().Sub(s.StartTime()) < markEndAfter {
			return
		}
		category = markEnd
	}
	id := s.SpanContext().SpanID()
	var text [16]byte
	hex.Encode(text[:], id[:])
	trace.Log(ctx, category, string(text[:]))
}
