package exporter

import (
	"context"
	"errors"
	"fmt"
	"time"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"

	"github.com/entrace-go/entrace/control"
	"github.com/entrace-go/entrace/format"
	"github.com/entrace-go/entrace/remote"
)

// ErrShutdown is returned by what was shut down.
var ErrShutdown = errors.New("exporter: shut down")

// A Mode is how Setup records spans.
type Mode string

// The modes.
const (
	ModeLive  Mode = "live"  // when they start and when they end
	ModeBatch Mode = "batch" // when they have ended, in batches
)

// A SpanExporterFactory makes a span exporter of another kind.
type SpanExporterFactory func(context.Context) (sdktrace.SpanExporter, error)

type config struct {
	recorder  *format.Recorder
	path      string
	recording format.RecorderOptions
	durable   bool // Durability is set
	unsampled bool
	control   *control.Control
	endpoint  string
	sending   remote.SenderOptions

	// Of Setup alone.
	mode      Mode
	resource  *resource.Resource
	factories map[string]SpanExporterFactory
	provider  []sdktrace.TracerProviderOption
	noGlobals bool
	sampler   sdktrace.Sampler
}

// A SetupOption is an option of [Setup].
type SetupOption interface{ applySetup(*config) }

// An Option is an option of [New], [NewSpanProcessor] and [Setup].
type Option interface {
	SetupOption
	apply(*config)
}

type option func(*config)

func (o option) apply(c *config)      { o(c) }
func (o option) applySetup(c *config) { o(c) }

type setupOption func(*config)

func (o setupOption) applySetup(c *config) { o(c) }

// WithRecorder makes spans go to r, which stays the caller's to close.
func WithRecorder(r *format.Recorder) Option { return option(func(c *config) { c.recorder = r }) }

// WithPath sets the file, with {service}, {pid} and {time} in it expanded, as
// OTEL_EXPORTER_ENTRACE_PATH does; "none" and "-" are no file. It has no effect
// beside WithRecorder.
func WithPath(path string) Option { return option(func(c *config) { c.path = path }) }

// WithFormat sets what there is after Shutdown: [format.ET] or [format.IET].
func WithFormat(f format.StorageFormat) Option {
	return option(func(c *config) { c.recording.Format = format.Some(f) })
}

// WithVersion sets the disk version.
func WithVersion(v format.Version) Option {
	return option(func(c *config) { c.recording.Version = v })
}

// WithDurability sets what records survive.
func WithDurability(d format.Durability) Option {
	return option(func(c *config) { c.recording.Durability, c.durable = d, true })
}

// WithRotation begins a new file when the growing one has so many bytes or is so
// old, and keeps so many finished ones; zero is no bound. See
// [format.RecorderOptions].
func WithRotation(maxSize int64, maxAge time.Duration, keep int) Option {
	return option(func(c *config) {
		c.recording.MaxFileSize, c.recording.MaxFileAge, c.recording.KeepFiles = maxSize, maxAge, keep
	})
}

// WithWaiting bounds the spans that wait for their parents in number, bytes and
// time; zero leaves the default. See [format.RecorderOptions].
func WithWaiting(spans, size int, age time.Duration) Option {
	return option(func(c *config) {
		c.recording.MaxWaitingSpans, c.recording.MaxWaitingBytes, c.recording.MaxWaitingAge = spans, size, age
	})
}

// WithUnsampled makes a [SpanProcessor] take spans, too, that are recorded but
// not sampled.
func WithUnsampled() Option { return option(func(c *config) { c.unsampled = true }) }

// WithControl records for c: to its ring, live, and those spans, too, that are
// recorded but not sampled. What is about files has no effect then. c stays the
// caller's to shut down. [New] takes ended spans to the ring of c.
func WithControl(c *control.Control) Option {
	return option(func(cfg *config) { cfg.control = c })
}

// WithSampler sets the sampler of the TracerProvider, where the environment has
// another one. With a control, use it rather than the SDK's own option, which
// would keep spans that are not sampled from the control.
func WithSampler(s sdktrace.Sampler) SetupOption {
	return setupOption(func(c *config) { c.sampler = s })
}

// WithMode sets how spans are recorded.
func WithMode(m Mode) SetupOption { return setupOption(func(c *config) { c.mode = m }) }

// WithResource sets the resource of the spans, to which the environment and the
// SDK's defaults add what it does not say.
func WithResource(r *resource.Resource) SetupOption {
	return setupOption(func(c *config) { c.resource = r })
}

// WithSpanExporter lets OTEL_TRACES_EXPORTER name an exporter of another kind,
// which then gets the spans, too, through a batch span processor.
func WithSpanExporter(name string, f SpanExporterFactory) SetupOption {
	return setupOption(func(c *config) {
		if c.factories == nil {
			c.factories = make(map[string]SpanExporterFactory)
		}
		c.factories[name] = f
	})
}

// WithTracerProviderOptions adds options for the SDK's TracerProvider. What they
// register sees spans before the recorder does.
func WithTracerProviderOptions(o ...sdktrace.TracerProviderOption) SetupOption {
	return setupOption(func(c *config) { c.provider = append(c.provider, o...) })
}

// WithoutGlobals keeps Setup from setting OpenTelemetry's global TracerProvider
// and propagator.
func WithoutGlobals() SetupOption { return setupOption(func(c *config) { c.noGlobals = true }) }

// newConfig applies options, then the environment where they say nothing.
func newConfig(options []Option) config {
	var c config
	for _, o := range options {
		o.apply(&c)
	}
	c.environment()
	return c
}

// open returns the recorder to use and whether it was opened here.
func (c *config) open(res *resource.Resource) (*format.Recorder, bool, error) {
	if c.control != nil {
		return c.control.Recorder(), false, nil
	}
	if c.recorder != nil {
		return c.recorder, false, nil
	}
	o := c.recording
	o.OnError = report
	r, err := c.create(expand(c.path, serviceName(res)), &o)
	if err != nil {
		return nil, false, fmt.Errorf("exporter: %w", err)
	}
	return r, true, nil
}

// report tells the user of something that is no reason to stop. It must not be
// called with a lock held: it can lead back into slog's default handler.
func report(err error) { otel.Handle(err) }
