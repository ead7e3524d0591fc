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

// The variables. A test copies the comment of each variable as a row into docs/environment.md and the
// package comment. A row has the form: option in the code | default | meaning.
const (
	// WithSpanExporter | `entrace` | where spans go: a list of `entrace`, `none` and names of exporters given with
	// `WithSpanExporter`.
	envTracesExporter = "OTEL_TRACES_EXPORTER"

	// WithLogExporter | `entrace` | where records of OpenTelemetry's log API go: a list of `entrace`, `none` and
	// names of exporters given with `WithLogExporter`. With the option `WithoutLogs`, the variable has no effect.
	envLogsExporter = "OTEL_LOGS_EXPORTER"

	// WithMode | `live` | `live`: record spans when they start and end; `batch`: only when they have ended, in batches.
	envMode = "OTEL_EXPORTER_ENTRACE_MODE"

	// WithLogLevel | `info`; with a flight recorder `debug` | the lowest level of log records that entrace records:
	// `debug`, `info`, `warn`, `error`, or a level with an offset, such as `info+2`.
	envLevel = "OTEL_EXPORTER_ENTRACE_LEVEL"

	// WithEndpoint | – | `tcp://host:port`, `tls://host:port`, `unix:///path` or `host:port`: the address of
	// `entrace receive` or ENTRACE, which gets a copy of all records. The default port is 6142.
	envEndpoint = "OTEL_EXPORTER_ENTRACE_ENDPOINT"

	// WithEndpoint | – | the token that the receiver asks for, 16 to 256 bytes.
	envToken = "OTEL_EXPORTER_ENTRACE_TOKEN" //nolint:gosec // the name of a variable, not a token

	// WithControl | `off` | `ring`: a flight recorder, which writes a file when a trigger fires; `stream`: a flight recorder
	// that also writes everything to a file.
	envControl = "OTEL_EXPORTER_ENTRACE_CONTROL"

	// WithControl | – | a YAML file instead of the `CONTROL` variables below; the flight recorder reads it again when it
	// changes.
	envControlConfig = envControl + "_CONFIG"

	// WithControl | `{service}-traces` | the flight recorder's folder.
	envControlDir = envControl + "_DIR"

	// WithControl | `32MiB` | the size of the ring: memory in which new data replaces the oldest.
	envControlBytes = envControl + "_RING_BYTES"

	// WithControl | `spans,logs,runtime.metrics,gc` | what the flight recorder records.
	envProviders = envControl + "_PROVIDERS"

	// WithControl | `0` | `1`: also record Go's execution trace, which says what goroutines waited for.
	envExecTrace = envControl + "_EXEC_TRACE"

	// WithControl | `30s` | a log record at level ERROR makes the flight recorder write a file, at most once a minute. The
	// file begins this much time before the record; `off`: no file.
	envOnError = envControl + "_ON_ERROR"

	// WithControl | `off` | a span that took longer than this makes the flight recorder write a file.
	envOnSlow = envControl + "_ON_SLOW"

	// WithControl | `off` | a span that is open for longer than this makes the flight recorder write a file,
	// even if it is meant to last, such as a stream of events. A configuration file can name the spans.
	envOnHang = envControl + "_ON_HANG"

	// – | `on` | `on`: with a flight recorder, Setup adds `tracebacklabels=1` to `GODEBUG`, so that the text of a
	// crash names the spans of goroutines. Child processes inherit `GODEBUG`. Setup changes nothing if `GODEBUG` has
	// `tracebacklabels` already, or if it is the default, as in a module of Go 1.27. `off`: Setup never changes `GODEBUG`.
	envCrashLabels = "OTEL_EXPORTER_ENTRACE_CRASH_LABELS"

	// – | – | `entrace run` sets this variable for the command that it starts. Setup then does not report unknown names in
	// `OTEL_TRACES_EXPORTER` and `OTEL_LOGS_EXPORTER`, because SDKs of other languages may know them.
	envRun = "OTEL_EXPORTER_ENTRACE_RUN"

	// – | `false` | `true`: entrace records nothing, but the propagators work.
	envDisabled = "OTEL_SDK_DISABLED"

	// – | `tracecontext,baggage` | how spans reach other services: a list of these two, or `none`.
	envPropagators = "OTEL_PROPAGATORS"
)

// A Mode is a way to record spans.
type Mode string

// The modes.
const (
	ModeLive  Mode = "live"  // record spans when they start and when they end
	ModeBatch Mode = "batch" // record spans after they have ended, in batches
)

// An Option is an option of [Setup]: an option of this package or of package exporter.
type Option interface{ setup.Sealed }

// An ownOption is an option of this package. It sets fields of config, not of setup.Settings.
type ownOption struct {
	setup.Seal

	apply func(*config)
}

func option(apply func(*config)) Option { return ownOption{apply: apply} }

type config struct {
	recording    []exporter.Option
	resource     *resource.Resource
	control      *control.Control
	endpoint     string
	sending      remote.SenderOptions
	mode         Mode
	factories    exporterFactories[sdktrace.SpanExporter]
	logFactories exporterFactories[sdklog.Exporter]
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
	noArguments  bool
}

// exporterFactories maps the names that WithSpanExporter or WithLogExporter got to the functions that make the
// exporters.
type exporterFactories[E any] map[string]func(context.Context) (E, error)

// WithControl makes Setup record to the ring of the flight recorder c, in ModeLive. Spans that are recorded
// but not sampled are included. Options and variables for files then have no effect. The caller has to shut c
// down.
func WithControl(c *control.Control) Option { return option(func(cfg *config) { cfg.control = c }) }

// WithEndpoint makes Setup also send all records to the target: tcp://host:port, tls://host:port or unix:///path.
// OTEL_EXPORTER_ENTRACE_ENDPOINT does the same; see package remote. A nil o means the default options and the token
// from the environment. WithEndpoint has no effect if [exporter.WithRecorder] is given.
func WithEndpoint(target string, o *remote.SenderOptions) Option {
	return option(func(c *config) {
		c.endpoint = target
		if o != nil {
			c.sending = *o
		}
	})
}

// WithSlogDefault replaces slog's default logger. The new logger writes to the recorder. It also prints
// records from level INFO on as text on stderr, even if nothing can be recorded. It remains slog's default
// after Shutdown. To keep a handler of your own, pass the handler to [Pipeline.LogHandler].
func WithSlogDefault() Option { return option(func(c *config) { c.slog = true }) }

// WithLogLevel sets the lowest level of log records that are recorded, including records of
// OpenTelemetry's log API. It replaces OTEL_EXPORTER_ENTRACE_LEVEL. The method l.Level is called for
// every record. Nil, or a nil [*slog.LevelVar], means the default.
func WithLogLevel(l slog.Leveler) Option {
	if v, ok := l.(*slog.LevelVar); ok && v == nil {
		l = nil
	}
	return option(func(c *config) { c.level = l })
}

// WithErrorHandler sets the function that is called with later errors, such as a full disk, and with errors about
// variables that are not understood. By default these errors go to the console at level WARN. The function applies to
// the whole process. It may be otel.Handle, but only if OpenTelemetry's error handler does not log to a logger whose
// records are recorded.
func WithErrorHandler(fn func(error)) Option {
	return option(func(*config) { notice.SetErrorHandler(fn) })
}

// WithoutNotices turns off the notices about files on the console. Notices say that a flight recorder wrote a
// file, that the file of a dead process was finished, or that old files were removed.
func WithoutNotices() Option { return option(func(*config) { notice.SetQuiet(true) }) }

// WithSignals makes the Pipeline shut down when the process gets one of the signals. The signal then ends the process
// as it would have without WithSignals. Without arguments the signals are SIGTERM, which docker stop sends, and
// os.Interrupt. Use WithSignals in programs that do not handle these signals themselves.
func WithSignals(signals ...os.Signal) Option {
	if len(signals) == 0 {
		signals = []os.Signal{syscall.SIGTERM, os.Interrupt}
	}
	return option(func(c *config) { c.signals = append(c.signals, signals...) })
}

// WithoutCrashText leaves debug.SetCrashOutput to the program. By default Setup sets the crash output to a file of
// its own, so that the trace has the text and the stacks of a panic. Shutdown resets the crash output.
func WithoutCrashText() Option { return option(func(c *config) { c.noCrash = true }) }

// WithoutArguments leaves the command line of the program out of the trace. By default the resource has it, with its
// secrets replaced as in other values, next to the host, the process id, the working directory and the build. Exporters
// other than this module's do not get these attributes.
func WithoutArguments() Option { return option(func(c *config) { c.noArguments = true }) }

// WithSampler sets the sampler of the TracerProvider. It takes precedence over the sampler of the environment. With a
// flight recorder, use this option and not [sdktrace.WithSampler]: with [sdktrace.WithSampler], spans that are not
// sampled do not reach the flight recorder.
func WithSampler(s sdktrace.Sampler) Option { return option(func(c *config) { c.sampler = s }) }

// WithMode sets the way in which spans are recorded.
func WithMode(m Mode) Option { return option(func(c *config) { c.mode = m }) }

// WithResource sets the resource of the spans. The environment and the SDK's defaults add the
// attributes that r does not have.
func WithResource(r *resource.Resource) Option { return option(func(c *config) { c.resource = r }) }

// WithSpanExporter adds another kind of exporter under a name for OTEL_TRACES_EXPORTER. If the
// variable lists the name, Setup calls f to make the exporter. Spans reach the exporter through a
// batch span processor.
func WithSpanExporter(name string, f func(context.Context) (sdktrace.SpanExporter, error)) Option {
	return option(func(c *config) { c.factories[name] = f })
}

// WithLogExporter is like [WithSpanExporter], but for OTEL_LOGS_EXPORTER and the records of
// OpenTelemetry's log API.
func WithLogExporter(name string, f func(context.Context) (sdklog.Exporter, error)) Option {
	return option(func(c *config) { c.logFactories[name] = f })
}

// WithLoggerProviderOptions adds options for the SDK's LoggerProvider. If an option registers a
// processor, that processor sees log records before the recorder does.
func WithLoggerProviderOptions(o ...sdklog.LoggerProviderOption) Option {
	return option(func(c *config) { c.loggers = append(c.loggers, o...) })
}

// WithoutLogs turns off the recording of OpenTelemetry's log API: Setup sets no global LoggerProvider.
func WithoutLogs() Option { return option(func(c *config) { c.noLogs = true }) }

// WithTracerProviderOptions adds options for the SDK's TracerProvider. If an option registers a
// processor, that processor sees spans before the recorder does.
func WithTracerProviderOptions(o ...sdktrace.TracerProviderOption) Option {
	return option(func(c *config) { c.provider = append(c.provider, o...) })
}

// WithoutGlobals keeps Setup from setting OpenTelemetry's global TracerProvider, LoggerProvider and
// propagator.
func WithoutGlobals() Option { return option(func(c *config) { c.noGlobals = true }) }

// WithEnvironmentParent makes spans without a parent children of the span in the environment
// variables TRACEPARENT, TRACESTATE and BAGGAGE. `entrace run` and CI systems set these variables. The
// option applies to the global TracerProvider only: spans of the provider that
// [Pipeline.TracerProvider] returns begin traces of their own.
func WithEnvironmentParent() Option { return option(func(c *config) { c.parent = true }) }

// newConfig returns a config with the options applied.
func newConfig(options []Option) *config {
	c := &config{factories: make(exporterFactories[sdktrace.SpanExporter]), logFactories: make(exporterFactories[sdklog.Exporter])}
	for _, o := range options {
		switch o := o.(type) {
		case ownOption:
			o.apply(c)
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
