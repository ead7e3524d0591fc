package entrace

import (
	"context"
	"errors"

	sdktrace "go.opentelemetry.io/otel/sdk/trace"

	"github.com/entrace-go/entrace/exporter"
)

// A spanExporter is an exporter with the recording that it writes to.
type spanExporter struct {
	*exporter.Exporter

	recording *recording
}

// NewSpanExporter returns a span exporter for spans that have ended that records as [Setup]
// does, to an endpoint or for a flight recorder, too. Options that are about the
// TracerProvider have no effect. It is for programs that make their span processors
// themselves, and for contrib's autoexport: see package exporter/autoexport.
func NewSpanExporter(options ...Option) (sdktrace.SpanExporter, error) {
	c := newConfig(options)
	rec, err := c.open()
	if err != nil {
		return nil, err
	}
	e, err := exporter.New(rec.options(c)...)
	return &spanExporter{e, rec}, err
}

// Shutdown implements sdktrace.SpanExporter.
func (e *spanExporter) Shutdown(ctx context.Context) error {
	finish := ctx.Err() == nil
	return errors.Join(e.Exporter.Shutdown(ctx), e.recording.close(ctx, finish))
}
