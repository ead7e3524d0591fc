package entrace

import (
	"context"
	"errors"
	"sync"

	sdklog "go.opentelemetry.io/otel/sdk/log"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"

	"github.com/entrace-go/entrace/exporter"
)

// NewSpanExporter returns a span exporter for spans that have ended that records as [Setup]
// does, also to an endpoint or for a flight recorder. Options that are about the
// TracerProvider have no effect. It is for programs that make their span processors
// themselves, and for contrib's autoexport: see package exporter/autoexport.
func NewSpanExporter(options ...Option) (sdktrace.SpanExporter, error) {
	c := newConfig(options)
	u, err := c.use(len(options) == 0)
	if err != nil {
		return nil, err
	}
	e, err := exporter.New(u.of.recording.options(c)...)
	return &spanExporter{Exporter: e, user: u}, err
}

// NewLogExporter is [NewSpanExporter] for the records of OpenTelemetry's log API. The two share a
// recording if both are without options.
func NewLogExporter(options ...Option) (sdklog.Exporter, error) {
	c := newConfig(options)
	u, err := c.use(len(options) == 0)
	if err != nil {
		return nil, err
	}
	e, err := exporter.NewLogExporter(u.of.recording.options(c)...)
	return &logExporter{LogExporter: e, user: u}, err
}

// A spanExporter is an exporter with the recording that it writes to.
type spanExporter struct {
	*exporter.Exporter

	user *user
}

// Shutdown implements sdktrace.SpanExporter.
func (e *spanExporter) Shutdown(ctx context.Context) error {
	return e.user.shutdown(ctx, e.Exporter.Shutdown)
}

// A logExporter is an exporter with the recording that it writes to.
type logExporter struct {
	*exporter.LogExporter

	user *user
}

// Shutdown implements sdklog.Exporter.
func (e *logExporter) Shutdown(ctx context.Context) error {
	return e.user.shutdown(ctx, e.LogExporter.Shutdown)
}

// A usedRecording is a recording that the last of its users closes.
type usedRecording struct {
	recording *recording
	users     int
}

// environment is the recording of the exporters that have no options: a flight recorder, or an
// endpoint, is to be there once.
var environment struct {
	mu sync.Mutex

	used *usedRecording // nil: none
}

// A user is an exporter that uses a recording.
type user struct {
	of   *usedRecording
	once sync.Once
}

// use opens a recording, or joins the one that is shared. What it tells on the console it tells
// with the lock held, which only those take who make or end an exporter.
func (c *config) use(shared bool) (*user, error) {
	environment.mu.Lock()
	defer environment.mu.Unlock()
	if shared && environment.used != nil {
		environment.used.users++
		return &user{of: environment.used}, nil
	}
	rec, err := c.open()
	if err != nil {
		return nil, err
	}
	used := &usedRecording{rec, 1}
	if shared {
		environment.used = used
	}
	return &user{of: used}, nil
}

// shutdown ends an exporter, and the recording if nobody else uses it.
func (u *user) shutdown(ctx context.Context, exporter func(context.Context) error) (err error) {
	u.once.Do(func() {
		finish := ctx.Err() == nil
		if err = exporter(ctx); u.leave() {
			err = errors.Join(err, u.of.recording.close(ctx, finish))
		}
	})
	return err
}

// leave reports whether u is the last one.
func (u *user) leave() bool {
	environment.mu.Lock()
	defer environment.mu.Unlock()
	u.of.users--
	if u.of.users > 0 {
		return false
	}
	if environment.used == u.of {
		environment.used = nil
	}
	return true
}
