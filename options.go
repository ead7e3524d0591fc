package entrace

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"syscall"

	sdklog "go.opentelemetry.io/otel/sdk/log"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"

	"github.com/entrace-go/entrace/control"
	"github.com/entrace-go/entrace/exporter"
	"github.com/entrace-go/entrace/internal/env"
	"github.com/entrace-go/entrace/internal/notice"
	"github.com/entrace-go/entrace/internal/setup"
	"github.com/entrace-go/entrace/remote"
)

// The variables. The comment of each is its row in docs/environment.md: the default and the meaning.
const (
	// `live` | `live`: spans when they start and end; `batch`: when they have ended.
	envMode = "OTEL_EXPORTER_ENTRACE_MODE"

	// `info` | the least level of log records; `debug` for a flight recorder.
	envLevel = "OTEL_EXPORTER_ENTRACE_LEVEL"

	// – | `tcp://host:port`, `tls://host:port`, `unix:///path` or `host:port`: where `entrace receive`
	// takes a copy.
	envEndpoint = "OTEL_EXPORTER_ENTRACE_ENDPOINT"

	// – | what is shown to the receiver, 16 to 256 bytes.
	envToken = "OTEL_EXPORTER_ENTRACE_TOKEN" //nolint:gosec // the name of one

	// `off` | `ring`: snapshots when something asks; `stream`: a trace of everything as well.
	envControl = "OTEL_EXPORTER_ENTRACE_CONTROL"

	// – | a YAML file instead of those below, followed while the program runs.
	envControlConfig = envControl + "_CONFIG"

	// `{service}-traces` | the folder of its files.
	envControlDir = envControl + "_DIR"

	// `32MiB` | the size of the ring.
	envControlBytes = envControl + "_RING_BYTES"

	// `spans,logs,runtime.metrics,gc` | what is recorded.
	envProviders = envControl + "_PROVIDERS"

	// `30s` | how far back the file goes that the first ERROR record asks for; `off`.
	envOnError = envControl + "_ON_ERROR"

	// `off` | a span that took longer asks for a file.
	envOnSlow = envControl + "_ON_SLOW"

	// `off` | a span that is open for longer asks for a file.
	envOnHang = envControl + "_ON_HANG"

	// – | set by `entrace run`: other exporters that this program does not have are for programs in
	// other languages, and nothing is said of them.
	envRun = "OTEL_EXPORTER_ENTRACE_RUN"

	// `entrace` | a list: `entrace`, `none`, names given with `WithSpanExporter`.
	envTracesExporter = "OTEL_TRACES_EXPORTER"

	// `entrace` | a list for the records of OpenTelemetry's log API: `entrace`, `none`, names given
	// with `WithLogExporter`.
	envLogsExporter = "OTEL_LOGS_EXPORTER"

	// `false` | `true`: nothing is recorded.
	envDisabled = "OTEL_SDK_DISABLED"

	// `tracecontext,baggage` | a list of these two, or `none`.
	envPropagators = "OTEL_PROPAGATORS"
)

// A Mode is how spans are recorded.
type Mode string

// The modes.
const (
	ModeLive  Mode = "live"  // when they start and when they end
	ModeBatch Mode = "batch" // when they have ended, in batches
)

// An Option is an option of [Setup]: one of this package, or any of package exporter's.
type Option interface{ Apply(*setup.Settings) }

type option func(*config)

// Apply implements Option. What this package's options are about is in a config.
func (option) Apply(*setup.Settings) {}

type config struct {
	recording    []exporter.Option
	resource     *resource.Resource
	control      *control.Control
	endpoint     string
	sending      remote.SenderOptions
	mode         Mode
	factories    map[string]func(context.Context) (sdktrace.SpanExporter, error)
	logFactories map[string]func(context.Context) (sdklog.Exporter, error)
	provider     []sdktrace.TracerProviderOption
	loggers      []sdklog.LoggerProviderOption
	sampler      sdktrace.Sampler
	noGlobals    bool
	noLogs       bool
	parent       bool
	slog         bool
	level        slog.Leveler
	signals      []os.Signal
	noCrash      bool
}

// WithControl records for c: to its ring, live, also spans that are recorded but not sampled. What is about files has no effect then. c stays the caller's to shut down.
func WithControl(c *control.Control) Option { return option(func(cfg *config) { cfg.control = c }) }

// WithEndpoint also sends what is recorded to tcp://host:port, tls://host:port or
// unix:///path, as OTEL_EXPORTER_ENTRACE_ENDPOINT does; see package remote. A nil o means
// defaults, and the token of the environment. It has no effect beside
// [exporter.WithRecorder].
func WithEndpoint(target string, o *remote.SenderOptions) Option {
	return option(func(c *config) {
		c.endpoint = target
		if o != nil {
			c.sending = *o
		}
	})
}

// WithSlogDefault makes slog's default logger write to the recorder and, as text from INFO
// on, to stderr; to stderr alone if nothing can be recorded. It takes the place of the logger
// that was slog's default, and stays so after Shutdown. To keep a handler of your own, give
// that to [Pipeline.LogHandler].
func WithSlogDefault() Option { return option(func(c *config) { c.slog = true }) }

// WithLogLevel sets from which level on log records are recorded, those of OpenTelemetry's log API
// as well, in place of OTEL_EXPORTER_ENTRACE_LEVEL. It is read for every record.
func WithLogLevel(l slog.Leveler) Option { return option(func(c *config) { c.level = l }) }

// WithErrorHandler sets who is told of what goes wrong later on, such as a full disk, and of
// variables that are not understood; by default that is the console, at level WARN. It holds
// for the process, and may be otel.Handle unless that ends in a logger that records.
func WithErrorHandler(fn func(error)) Option {
	return option(func(*config) { notice.SetErrorHandler(fn) })
}

// WithoutNotices keeps the lines from the console that say what happens to files: a flight
// recorder wrote one, that of a dead process was finished, old ones were removed.
func WithoutNotices() Option { return option(func(*config) { notice.SetQuiet(true) }) }

// WithSignals shuts the Pipeline down when the process gets one of the signals, and then lets
// the signal end the process as it would have. Without any it is SIGTERM, which docker stop
// sends, and an interrupt. It is for programs that do not handle the signals themselves.
func WithSignals(signals ...os.Signal) Option {
	if len(signals) == 0 {
		signals = []os.Signal{syscall.SIGTERM, os.Interrupt}
	}
	return option(func(c *config) { c.signals = append(c.signals, signals...) })
}

// WithoutCrashText leaves debug.SetCrashOutput to the program. By default Setup has the
// runtime write there to a file of its own, so that a panic's text and stacks are in the
// trace; Shutdown sets it to nothing.
func WithoutCrashText() Option { return option(func(c *config) { c.noCrash = true }) }

// WithSampler sets the sampler of the TracerProvider, where the environment has another
// one. With a control, use it rather than the SDK's own option, which would keep spans that
// are not sampled from the control.
func WithSampler(s sdktrace.Sampler) Option { return option(func(c *config) { c.sampler = s }) }

// WithMode sets how spans are recorded.
func WithMode(m Mode) Option { return option(func(c *config) { c.mode = m }) }

// WithResource sets the resource of the spans, to which the environment and the SDK's
// defaults add what it does not say.
func WithResource(r *resource.Resource) Option { return option(func(c *config) { c.resource = r }) }

// WithSpanExporter lets OTEL_TRACES_EXPORTER name an exporter of another kind, which then
// gets the spans as well, through a batch span processor.
func WithSpanExporter(name string, f func(context.Context) (sdktrace.SpanExporter, error)) Option {
	return option(func(c *config) {
		if c.factories == nil {
			c.factories = make(map[string]func(context.Context) (sdktrace.SpanExporter, error))
		}
		c.factories[name] = f
	})
}

// WithLogExporter is [WithSpanExporter] for OTEL_LOGS_EXPORTER and the records of OpenTelemetry's
// log API.
func WithLogExporter(name string, f func(context.Context) (sdklog.Exporter, error)) Option {
	return option(func(c *config) {
		if c.logFactories == nil {
			c.logFactories = make(map[string]func(context.Context) (sdklog.Exporter, error))
		}
		c.logFactories[name] = f
	})
}

// WithLoggerProviderOptions adds options for the SDK's LoggerProvider. What they register sees log
// records before the recorder does.
func WithLoggerProviderOptions(o ...sdklog.LoggerProviderOption) Option {
	return option(func(c *config) { c.loggers = append(c.loggers, o...) })
}

// WithoutLogs leaves the records of OpenTelemetry's log API alone: Setup sets no LoggerProvider.
func WithoutLogs() Option { return option(func(c *config) { c.noLogs = true }) }

// WithTracerProviderOptions adds options for the SDK's TracerProvider. What they register
// sees spans before the recorder does.
func WithTracerProviderOptions(o ...sdktrace.TracerProviderOption) Option {
	return option(func(c *config) { c.provider = append(c.provider, o...) })
}

// WithoutGlobals keeps Setup from setting OpenTelemetry's global TracerProvider, LoggerProvider and
// propagator.
func WithoutGlobals() Option { return option(func(c *config) { c.noGlobals = true }) }

// WithEnvironmentParent hangs the first span of each trace of this process below the span that the
// environment names: TRACEPARENT, with TRACESTATE and BAGGAGE, as `entrace run` and CI systems
// set them. It is an option of the global TracerProvider: what [Pipeline.TracerProvider] returns
// begins traces of its own.
func WithEnvironmentParent() Option { return option(func(c *config) { c.parent = true }) }

// newConfig applies options.
func newConfig(options []Option) *config {
	c := new(config)
	for _, o := range options {
		switch o := o.(type) {
		case option:
			o(c)
		case exporter.Option:
			c.recording = append(c.recording, o)
		}
	}
	return c
}

// modeEnvironment sets the mode if options left it open.
func (c *config) modeEnvironment() {
	if s, ok := env.Lookup(envMode); ok && c.mode == "" {
		switch m := Mode(strings.ToLower(s)); m {
		case ModeLive, ModeBatch:
			c.mode = m
		default:
			env.ReportValue(envMode, s, errors.New("neither live nor batch"))
		}
	}
	switch c.mode {
	case "":
		c.mode = ModeLive
	case ModeLive, ModeBatch:
	default:
		notice.Error(fmt.Errorf("entrace: mode %q is ignored: neither live nor batch", c.mode))
		c.mode = ModeLive
	}
}

// disabled reports whether OTEL_SDK_DISABLED says so.
func disabled() bool {
	s, ok := env.Lookup(envDisabled)
	switch {
	case !ok || strings.EqualFold(s, "false"):
		return false
	case strings.EqualFold(s, "true"):
		return true
	}
	env.ReportValue(envDisabled, s, errors.New("neither true nor false"))
	return false
}
