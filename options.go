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
	"github.com/entrace-go/entrace/internal/file/env"
	"github.com/entrace-go/entrace/internal/text/notice"
	"github.com/entrace-go/entrace/internal/write/setup"
	"github.com/entrace-go/entrace/remote"
)

// The variables. The comment of each variable is its row in docs/environment.md: the default and
// the meaning.
const (
	// `live` | `live`: spans when they start and end; `batch`: when they have ended.
	envMode = "OTEL_EXPORTER_ENTRACE_MODE"

	// `info` | the least level of log records; `debug` for a flight recorder.
	envLevel = "OTEL_EXPORTER_ENTRACE_LEVEL"

	// – | `tcp://host:port`, `tls://host:port`, `unix:///path` or `host:port`: where `entrace receive`
	// takes a copy.
	envEndpoint = "OTEL_EXPORTER_ENTRACE_ENDPOINT"

	// – | what is shown to the receiver, 16 to 256 bytes.
	envToken = "OTEL_EXPORTER_ENTRACE_TOKEN" //nolint:gosec // the name of a variable, not a token

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

	// `0` | `1`: the runtime's execution trace as well, which says what goroutines waited for.
	envExecTrace = envControl + "_EXEC_TRACE"

	// `30s` | how far back the file goes that the first ERROR record asks for; `off`.
	envOnError = envControl + "_ON_ERROR"

	// `off` | a span that took longer asks for a file.
	envOnSlow = envControl + "_ON_SLOW"

	// `off` | a span that is open for longer asks for a file.
	envOnHang = envControl + "_ON_HANG"

	// `on` | `off`: Setup does not add `tracebacklabels=1` to `GODEBUG`, by which a crash of a program with a flight
	// recorder names the spans of its goroutines; child processes inherit `GODEBUG`.
	envCrashLabels = "OTEL_EXPORTER_ENTRACE_CRASH_LABELS"

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

// A Mode is a way to record spans.
type Mode string

// The modes.
const (
	ModeLive  Mode = "live"  // when they start and when they end
	ModeBatch Mode = "batch" // when they have ended, in batches
)

// An Option is an option of [Setup]: an option of this package or of package exporter.
type Option interface{ Apply(*setup.Settings) }

type option func(*config)

// Apply implements Option. It changes nothing: the options of this package set fields of config,
// not of setup.Settings.
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

// WithControl records live to the ring of c, including spans that are recorded but not sampled.
// Options and variables about files have no effect then. The caller has to shut c down.
func WithControl(c *control.Control) Option { return option(func(cfg *config) { cfg.control = c }) }

// WithEndpoint also sends all records to tcp://host:port, tls://host:port or unix:///path, as
// OTEL_EXPORTER_ENTRACE_ENDPOINT does; see package remote. A nil o means the defaults and the token
// from the environment. WithEndpoint has no effect if [exporter.WithRecorder] is given.
func WithEndpoint(target string, o *remote.SenderOptions) Option {
	return option(func(c *config) {
		c.endpoint = target
		if o != nil {
			c.sending = *o
		}
	})
}

// WithSlogDefault replaces slog's default logger by one that writes to the recorder and, as text
// from INFO on, to stderr. If nothing can be recorded, it writes to stderr alone. It stays slog's
// default after Shutdown. To keep a handler of your own, pass it to [Pipeline.LogHandler].
func WithSlogDefault() Option { return option(func(c *config) { c.slog = true }) }

// WithLogLevel sets the lowest level at which log records are recorded, those of OpenTelemetry's
// log API included. It replaces OTEL_EXPORTER_ENTRACE_LEVEL. The Leveler is asked for every record. Nil, or
// a nil [*slog.LevelVar], stands for the default.
func WithLogLevel(l slog.Leveler) Option {
	if v, ok := l.(*slog.LevelVar); ok && v == nil {
		l = nil
	}
	return option(func(c *config) { c.level = l })
}

// WithErrorHandler sets the function that gets later errors, such as a full disk, and errors about
// variables that are not understood. By default they go to the console at level WARN. The function
// applies to the whole process. It may be otel.Handle, unless that passes errors to a logger whose
// records are recorded.
func WithErrorHandler(fn func(error)) Option {
	return option(func(*config) { notice.SetErrorHandler(fn) })
}

// WithoutNotices turns off the notices about files on the console: a flight recorder wrote a file,
// the file of a dead process was finished, old files were removed.
func WithoutNotices() Option { return option(func(*config) { notice.SetQuiet(true) }) }

// WithSignals shuts the Pipeline down when the process gets one of the signals, and then lets the
// signal end the process as it would have. Without arguments the signals are SIGTERM, which docker
// stop sends, and os.Interrupt. Use it in programs that do not handle these signals themselves.
func WithSignals(signals ...os.Signal) Option {
	if len(signals) == 0 {
		signals = []os.Signal{syscall.SIGTERM, os.Interrupt}
	}
	return option(func(c *config) { c.signals = append(c.signals, signals...) })
}

// WithoutCrashText leaves debug.SetCrashOutput to the program. By default Setup sets the crash
// output to a file of its own, so that the text and the stacks of a panic are in the trace;
// Shutdown unsets it.
func WithoutCrashText() Option { return option(func(c *config) { c.noCrash = true }) }

// WithSampler sets the sampler of the TracerProvider. It beats the sampler of the environment. With
// a control, use WithSampler and not the SDK's own option: with the SDK's option the control would
// not get spans that are not sampled.
func WithSampler(s sdktrace.Sampler) Option { return option(func(c *config) { c.sampler = s }) }

// WithMode sets the way in which spans are recorded.
func WithMode(m Mode) Option { return option(func(c *config) { c.mode = m }) }

// WithResource sets the resource of the spans. The environment and the SDK's defaults add the
// attributes that r does not have.
func WithResource(r *resource.Resource) Option { return option(func(c *config) { c.resource = r }) }

// WithSpanExporter adds another kind of exporter under a name for OTEL_TRACES_EXPORTER. If the
// variable lists the name, f makes the exporter, which gets the spans through a batch span
// processor.
func WithSpanExporter(name string, f func(context.Context) (sdktrace.SpanExporter, error)) Option {
	return option(func(c *config) {
		if c.factories == nil {
			c.factories = make(map[string]func(context.Context) (sdktrace.SpanExporter, error))
		}
		c.factories[name] = f
	})
}

// WithLogExporter does the same as [WithSpanExporter], for OTEL_LOGS_EXPORTER and the records of
// OpenTelemetry's log API.
func WithLogExporter(name string, f func(context.Context) (sdklog.Exporter, error)) Option {
	return option(func(c *config) {
		if c.logFactories == nil {
			c.logFactories = make(map[string]func(context.Context) (sdklog.Exporter, error))
		}
		c.logFactories[name] = f
	})
}

// WithLoggerProviderOptions adds options for the SDK's LoggerProvider. Processors that they
// register see log records before the recorder does.
func WithLoggerProviderOptions(o ...sdklog.LoggerProviderOption) Option {
	return option(func(c *config) { c.loggers = append(c.loggers, o...) })
}

// WithoutLogs leaves the records of OpenTelemetry's log API alone: Setup sets no LoggerProvider.
func WithoutLogs() Option { return option(func(c *config) { c.noLogs = true }) }

// WithTracerProviderOptions adds options for the SDK's TracerProvider. Processors that they
// register see spans before the recorder does.
func WithTracerProviderOptions(o ...sdktrace.TracerProviderOption) Option {
	return option(func(c *config) { c.provider = append(c.provider, o...) })
}

// WithoutGlobals keeps Setup from setting OpenTelemetry's global TracerProvider, LoggerProvider and
// propagator.
func WithoutGlobals() Option { return option(func(c *config) { c.noGlobals = true }) }

// WithEnvironmentParent makes spans without a parent children of the span in the environment
// variables TRACEPARENT, TRACESTATE and BAGGAGE, which `entrace run` and CI systems set. It applies
// to the global TracerProvider only: spans of the provider that [Pipeline.TracerProvider] returns
// begin traces of their own.
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

// modeEnvironment sets the mode from the environment if no option did.
func (c *config) modeEnvironment() {
	if s, ok := env.Lookup(envMode); ok && c.mode == "" {
		switch m := Mode(strings.ToLower(s)); m {
		case ModeLive, ModeBatch:
			c.mode = m
		default:
			env.ReportValue(envMode, s, errors.New("must be live or batch"))
		}
	}
	switch c.mode {
	case "":
		c.mode = ModeLive
	case ModeLive, ModeBatch:
	default:
		notice.Error(fmt.Errorf("entrace: mode %q is ignored: must be live or batch", c.mode))
		c.mode = ModeLive
	}
}

// disabled reports whether OTEL_SDK_DISABLED is true.
func disabled() bool {
	s, ok := env.Lookup(envDisabled)
	switch {
	case !ok || strings.EqualFold(s, "false"):
		return false
	case strings.EqualFold(s, "true"):
		return true
	}
	env.ReportValue(envDisabled, s, errors.New("must be true or false"))
	return false
}
