package exporter

import (
	"context"
	"encoding/hex"
	"runtime/trace"
	"time"

	sdktrace "go.opentelemetry.io/otel/sdk/trace"
)

// The categories of the log messages with which a span puts its id into an execution trace of the runtime.
// The SDK begins a task of the trace for each span, which has its name and no id: the mark is right before it.
// Of a span that is open for long that task may have begun before the trace; so its end has a mark as well.
const (
	markStart = "otel.span"
	markEnd   = "otel.end"

	markEndAfter = time.Second
)

// marks reports whether spans write their ids into an execution trace.
func (p *SpanProcessor) marks() bool {
	return trace.IsEnabled() && (p.flight == nil || p.flight.WantsMarks())
}

func mark(ctx context.Context, category string, s sdktrace.ReadOnlySpan) {
	id := s.SpanContext().SpanID()
	var text [16]byte
	hex.Encode(text[:], id[:])
	trace.Log(ctx, category, string(text[:]))
}
