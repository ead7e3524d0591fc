package entrace

import (
	"context"
	"errors"
	"sync"

	sdklog "go.opentelemetry.io/otel/sdk/log"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"

	"github.com/entrace-go/entrace/exporter"
	"github.com/entrace-go/entrace/internal/write/setup"
)

func init() {
	setup.NewSpanExporter, setup.NewLogExporter = newSpanExporter, newLogExporter
}

func newSpanExporter() (sdktrace.SpanExporter, error) {
	u, o, err := openOrShare()
	if err != nil {
		return nil, err
	}
	e, err := exporter.New(o...)
	return &spanExporter{Exporter: e, user: u}, err
}

func newLogExporter() (sdklog.Exporter, error) {
	u, o, err := openOrShare()
	if err != nil {
		return nil, err
	}
	e, err := exporter.NewLogExporter(o...)
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

// environment holds the recording that all these exporters share, so that the process has one flight recorder or
// one connection to the endpoint.
var environment struct {
	mu sync.Mutex

	used *usedRecording // nil if no exporter uses a recording
}

// A user is an exporter as a user of a recording. Its first shutdown decrements the number of users.
type user struct {
	of   *usedRecording
	once sync.Once
}

// openOrShare returns a user of the shared recording, and the options of its exporter. It opens the recording if it is
// not open. It may print on the console while it holds environment.mu. This cannot deadlock, because only making and
// ending an exporter lock environment.mu.
func openOrShare() (*user, []exporter.Option, error) {
	environment.mu.Lock()
	defer environment.mu.Unlock()
	c := newConfig(nil)
	if environment.used == nil {
		rec, err := c.open()
		if err != nil {
			return nil, nil, err
		}
		environment.used = &usedRecording{recording: rec}
	}
	environment.used.users++
	return &user{of: environment.used}, environment.used.recording.options(c), nil
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
	environment.used = nil
	return true
}
