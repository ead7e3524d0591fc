package entrace

import (
	"context"
	"errors"
	"sync"

	sdklog "go.opentelemetry.io/otel/sdk/log"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"

	"github.com/entrace-go/entrace/exporter"
)

// NewSpanExporter returns an exporter for ended spans. The exporter records to the same places as [Setup] does,
// including an endpoint or a flight recorder. Options for the TracerProvider have no effect. Use NewSpanExporter in
// programs that make their span processors themselves. With package exporter/autoexport, OpenTelemetry's contrib
// package autoexport calls NewSpanExporter.
func NewSpanExporter(options ...Option) (sdktrace.SpanExporter, error) {
	c := newConfig(options)
	u, err := c.openOrShare(len(options) == 0)
	if err != nil {
		return nil, err
	}
	e, err := exporter.New(u.of.recording.options(c)...)
	return &spanExporter{Exporter: e, user: u}, err
}

// NewLogExporter is like [NewSpanExporter], but for the records of OpenTelemetry's log API. All span and log
// exporters that these two functions make without options share one recording.
func NewLogExporter(options ...Option) (sdklog.Exporter, error) {
	c := newConfig(options)
	u, err := c.openOrShare(len(options) == 0)
	if err != nil {
		return nil, err
	}
	e, err := exporter.NewLogExporter(u.of.recording.options(c)...)
	return &logExporter{LogExporter: e, user: u}, err
}

// A spanExporter is a span exporter that counts as a user of its recording.
type spanExporter struct {
	*exporter.Exporter

	user *user
}

// Shutdown implements sdktrace.SpanExporter.
func (e *spanExporter) Shutdown(ctx context.Context) error {
	return e.user.shutdown(ctx, e.Exporter.Shutdown)
}

// A logExporter is a log exporter that counts as a user of its recording.
type logExporter struct {
	*exporter.LogExporter

	user *user
}

// Shutdown implements sdklog.Exporter.
func (e *logExporter) Shutdown(ctx context.Context) error {
	return e.user.shutdown(ctx, e.LogExporter.Shutdown)
}

// A usedRecording is a recording with a count of its users. The last user closes it.
type usedRecording struct {
	recording *recording
	users     int
}

// environment holds the recording that all exporters without options share, so that the process
// has one flight recorder or one connection to the endpoint.
var environment struct {
	mu sync.Mutex

	used *usedRecording // nil if no exporter uses a shared recording
}

// A user is an exporter as a user of a recording. Its first shutdown decrements the number of users.
type user struct {
	of   *usedRecording
	once sync.Once
}

// openOrShare opens a recording. If shared is true and a shared recording is open, openOrShare returns a further
// user of that recording instead. It may print on the console while it holds environment.mu. This
// cannot deadlock, because only making and ending an exporter lock environment.mu.
func (c *config) openOrShare(shared bool) (*user, error) {
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

// shutdown calls the function exporter, which shuts the exporter down. If u is the last user of the recording,
// shutdown also closes the recording.
func (u *user) shutdown(ctx context.Context, exporter func(context.Context) error) (err error) {
	u.once.Do(func() {
		finish := ctx.Err() == nil
		err = exporter(ctx)
		if u.release() {
			err = errors.Join(err, u.of.recording.close(ctx, finish))
		}
	})
	return err
}

// release removes u from the users of its recording, and reports whether u was the last one.
func (u *user) release() bool {
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
