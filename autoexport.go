package entrace

import (
	"context"
	"errors"
	"sync"

	sdktrace "go.opentelemetry.io/otel/sdk/trace"

	"github.com/entrace-go/entrace/exporter"
)

// A spanExporter is an exporter with the recording that it writes to.
type spanExporter struct {
	*exporter.Exporter

	recording *recording
	once      sync.Once
}

// NewSpanExporter returns a span exporter for spans that have ended that records as [Setup]
// does, also to an endpoint or for a flight recorder. Options that are about the
// TracerProvider have no effect. It is for programs that make their span processors
// themselves, and for contrib's autoexport: see package exporter/autoexport.
func NewSpanExporter(options ...Option) (sdktrace.SpanExporter, error) {
	c := newConfig(options)
	rec, err := c.open()
	if err != nil {
		return nil, err
	}
	e, err := exporter.New(rec.options(c)...)
	return &spanExporter{Exporter: e, recording: rec}, err
}

// Shutdown implements sdktrace.SpanExporter.
func (e *spanExporter) Shutdown(ctx context.Context) (err error) {
	e.once.Do(func() {
		finish := ctx.Err() == nil
		err = errors.Join(e.Exporter.Shutdown(ctx), e.recording.close(ctx, finish))
	})
	return err
}
