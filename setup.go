package entrace

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"strings"
	"sync"
	"time"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/propagation"
	sdklog "go.opentelemetry.io/otel/sdk/log"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"
	"go.opentelemetry.io/otel/trace/noop"

	"github.com/entrace-go/entrace/control"
	"github.com/entrace-go/entrace/exporter"
	"github.com/entrace-go/entrace/internal/file/env"
	"github.com/entrace-go/entrace/internal/text/notice"
	"github.com/entrace-go/entrace/internal/write/inside"
	"github.com/entrace-go/entrace/internal/write/safecall"
	"github.com/entrace-go/entrace/recorder"
)

// A Pipeline holds the recorder and the providers that [Setup] makes.
type Pipeline struct {
	recording *recording
	provider  *sdktrace.TracerProvider
	own       sdktrace.SpanProcessor // writes to the recorder; nil: spans are not recorded
	loggers   *sdklog.LoggerProvider
	ownLogs   *exporter.LogProcessor // writes to the recorder; nil: OpenTelemetry's log records are not recorded

	level slog.Leveler // the lowest level of log records that are recorded

	mu   sync.Mutex
	done bool
}

// Setup starts to record the spans of this process. Environment variables and options configure it.
// Setup sets OpenTelemetry's global TracerProvider and propagator. It also sets the global
// LoggerProvider, unless the program has set one. The LoggerProvider records OpenTelemetry's log
// records, including records of bridges such as otelzap. Use [WithSlogDefault] or
// [Pipeline.LogHandler] for the records of log/slog. Call Shutdown at the end.
//
// If Setup returns an error, for example because the file cannot be created, the Pipeline is usable nevertheless: it
// records nothing, but other exporters work. So a program can ignore the error and continue without a trace.
func Setup(ctx context.Context, options ...Option) (*Pipeline, error) {
	if ctx == nil {
		ctx = context.Background() // a nil ctx must not keep the program from starting
	}
	c := newConfig(options)
	if disabled() {
		return nothing(c), nil
	}
	unknownVariables()
	configFiles()
	c.modeEnvironment()
	rec, failed := c.open()
	own, others := c.processors(ctx, rec)
	var o []sdktrace.TracerProviderOption
	switch {
	case rec.control != nil && own != nil:
		s := c.sampler
		if s == nil {
			s = environmentSampler()
		}
		o = append(o, sdktrace.WithSampler(RecordingSampler(s, rec.control)))
	case c.sampler != nil:
		o = append(o, sdktrace.WithSampler(c.sampler))
	}
	o = append(append(o, c.provider...), sdktrace.WithResource(rec.resource))
	for _, sp := range others {
		o = append(o, sdktrace.WithSpanProcessor(sp))
	}
	if own != nil { // last, so that it sees the additions of the other processors
		o = append(o, sdktrace.WithSpanProcessor(own))
	}
	p := &Pipeline{recording: rec, own: own, provider: sdktrace.NewTracerProvider(o...), level: c.levelFor(rec.recorder)}
	c.recordLogs(ctx, p)
	var global trace.TracerProvider = p.provider
	if c.parent {
		global = belowEnvironment(global)
	}
	c.globals(p, global)
	p.endOn(c.signals)
	return p, failed
}

// levelFor returns the lowest level of log records that are recorded to r.
func (c *config) levelFor(r *recorder.Recorder) slog.Leveler {
	if c.level != nil {
		return c.level
	}
	level := slog.LevelInfo
	if inside.Of(r).IsRing() {
		level = slog.LevelDebug
	}
	if s, ok := env.Lookup(envLevel); ok {
		var l slog.Level
		if err := l.UnmarshalText([]byte(s)); err == nil {
			return l
		}
		env.ReportValue(envLevel, s, errors.New("must be debug, info, warn or error, or one of them with an offset, such as info+2"))
	}
	return level
}

// globals sets OpenTelemetry's global TracerProvider to tp, and the global propagator as the environment says, unless
// WithoutGlobals was given. If WithSlogDefault was given, globals also sets slog's default logger.
func (c *config) globals(p *Pipeline, tp trace.TracerProvider) {
	if c.slog {
		slog.SetDefault(slog.New(p.LogHandler(nil)))
	}
	if c.noGlobals {
		return
	}
	otel.SetTracerProvider(tp)
	if pr := propagator(); pr != nil {
		otel.SetTextMapPropagator(pr)
	}
}

// endOn shuts p down on the first of the signals, and then lets the signal end the process.
func (p *Pipeline) endOn(signals []os.Signal) {
	if signals == nil {
		return
	}
	got := make(chan os.Signal, 1)
	signal.Notify(got, signals...)
	go func() {
		s := <-got
		signal.Reset(signals...) // a second signal ends the process at once
		ctx, cancel := context.WithTimeout(context.Background(), endGrace)
		defer cancel()
		done := make(chan error, 1)
		go func() { done <- p.Shutdown(ctx) }()
		select {
		case err := <-done:
			if err != nil {
				notice.Error(err)
			}
		case <-ctx.Done(): // another goroutine shuts down, or an exporter hangs
		}
		if self, err := os.FindProcess(os.Getpid()); err == nil && self.Signal(s) == nil {
			time.Sleep(endGrace) // the signal ends the process during this sleep
		}
		os.Exit(1) // on systems where a process cannot send itself the signal
	}()
}

// endGrace is how long Shutdown may take after a signal. Docker kills the process after ten seconds.
const endGrace = 5 * time.Second

// nothing returns a Pipeline that records nothing. Its TracerProvider is already shut down, so its
// tracers do nothing and leave span contexts unchanged.
func nothing(c *config) *Pipeline {
	p := &Pipeline{
		recording: &recording{recorder: recorder.Discard()}, provider: sdktrace.NewTracerProvider(), loggers: sdklog.NewLoggerProvider(), done: true,
	}
	_ = p.provider.Shutdown(context.Background()) // it has no processors
	c.globals(p, noop.NewTracerProvider())        // trace contexts still propagate
	return p
}

// processors returns the span processors for the exporters that OTEL_TRACES_EXPORTER names. The result own writes to
// r; it is nil if spans are not recorded. The result others has the processors of the other exporters.
func (c *config) processors(ctx context.Context, r *recording) (own sdktrace.SpanProcessor, others []sdktrace.SpanProcessor) {
	records, exporters := named(ctx, envTracesExporter, "WithSpanExporter", c.factories)
	for _, e := range exporters {
		others = append(others, sdktrace.NewBatchSpanProcessor(e))
	}
	if !records {
		return nil, others
	}
	o := r.options(c)
	if c.mode == ModeBatch && r.control == nil {
		e, _ := exporter.New(o...) // an error is impossible: the recorder is open already
		return sdktrace.NewBatchSpanProcessor(e), others
	}
	own, _ = exporter.NewSpanProcessor(o...)
	return own, others
}

// named makes the exporters that a variable lists, with the factories that the option registered. The result records
// says whether this module should record. It is true if the list has the name entrace. It is also true if no exporter
// of the list could be made, for example because all names are unknown, unless the list has the name none.
func named[E any](ctx context.Context, variable, option string, factories exporterFactories[E]) (records bool, others []E) {
	s, _ := env.Lookup(variable)
	names := env.List(s)
	none := false
	for _, name := range names {
		switch f := factories[name]; {
		case strings.EqualFold(name, "none"):
			none = true
			if len(names) > 1 {
				env.ReportValue(variable, s, errors.New("none cannot be combined with other exporters"))
			}
		case strings.EqualFold(name, "entrace"):
			records = true
		case f == nil:
			if _, run := env.Lookup(envRun); run {
				continue // entrace run sets the variables for programs in all languages
			}
			env.ReportValue(variable, s, fmt.Errorf("unknown exporter %q: register the exporter with entrace.%s", name, option))
		default:
			e, err := f(ctx)
			if err != nil {
				notice.Error(fmt.Errorf("entrace: %s=%q: exporter %q: %w", variable, s, name, err))
				continue
			}
			others = append(others, e)
		}
	}
	return records || !none && len(others) == 0, others
}

// propagator returns the propagator that OTEL_PROPAGATORS names, or nil if it names only "none" or unknown ones.
func propagator() propagation.TextMapPropagator {
	s, ok := env.Lookup(envPropagators)
	if !ok {
		s = "tracecontext,baggage"
	}
	var out []propagation.TextMapPropagator
	for _, name := range env.List(s) {
		switch name {
		case "tracecontext":
			out = append(out, propagation.TraceContext{})
		case "baggage":
			out = append(out, propagation.Baggage{})
		case "none":
		default:
			env.ReportValue(envPropagators, s, fmt.Errorf("unknown propagator %q: must be tracecontext, baggage or none", name))
		}
	}
	if len(out) == 0 {
		return nil
	}
	return propagation.NewCompositeTextMapPropagator(out...)
}

// Recorder returns the recorder of the Pipeline. A program can write its own log records and entries
// to it. If OTEL_SDK_DISABLED is true, the recorder drops everything.
func (p *Pipeline) Recorder() *recorder.Recorder { return p.recording.recorder }

// TracerProvider returns the TracerProvider whose spans are recorded.
func (p *Pipeline) TracerProvider() *sdktrace.TracerProvider { return p.provider }

// Control returns the flight recorder of p, or nil if p has none. The methods of a nil Control may
// be called.
func (p *Pipeline) Control() *control.Control { return p.recording.control }

// LoggerProvider returns the LoggerProvider whose OpenTelemetry log records are recorded. With [WithoutLogs] the
// LoggerProvider drops the records.
func (p *Pipeline) LoggerProvider() *sdklog.LoggerProvider { return p.loggers }

// ForceFlush writes all ended spans and log records to the file, so that other processes can read
// them.
func (p *Pipeline) ForceFlush(ctx context.Context) error {
	err := errors.Join(p.provider.ForceFlush(ctx), p.loggers.ForceFlush(ctx))
	if ferr := p.Recorder().Flush(ctx); !errors.Is(ferr, recorder.ErrClosed) {
		err = errors.Join(err, ferr)
	}
	return err
}

// Shutdown ends recording and finishes the file. If ctx is done, Shutdown returns the error of ctx,
// and the file remains an IET, which is complete but has no index. Another call of Shutdown then finishes
// the file. Shutdown is idempotent.
//
// If a panic runs Shutdown, as in a program with "defer p.Shutdown(ctx)", Shutdown only flushes, and recording
// continues. So the trace says that the panic ended the program, and has the text of the panic. Shutdown also only
// flushes if main calls runtime.Goexit. If the program recovers the panic, call Shutdown again after the function
// that recovers has returned: within this function, Shutdown cannot see that the panic is recovered.
func (p *Pipeline) Shutdown(ctx context.Context) error {
	if ctx == nil {
		ctx = context.Background()
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.done {
		return p.recording.close(ctx, ctx.Err() == nil)
	}
	if safecall.Dying() {
		var err error
		if p.own != nil {
			err = withGrace(ctx, p.own.ForceFlush)
		}
		return errors.Join(err, p.ForceFlush(ctx))
	}
	p.done = true
	finish := ctx.Err() == nil
	// Record ended spans first, even if ctx is done: other exporters could use up the rest of its
	// time.
	var err error
	if p.own != nil {
		err = withGrace(ctx, p.own.Shutdown)
	}
	err = errors.Join(err, p.provider.Shutdown(ctx))
	// Span processors may log until they are shut down, so the log processor is shut down after
	// them.
	if p.ownLogs != nil {
		err = errors.Join(err, withGrace(ctx, p.ownLogs.Shutdown))
	}
	err = errors.Join(err, p.loggers.Shutdown(ctx))
	return errors.Join(err, p.recording.close(ctx, finish))
}

// withGrace calls fn with a context that ends after shutdownGrace, even if ctx is done already.
func withGrace(ctx context.Context, fn func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), shutdownGrace)
	defer cancel()
	return fn(ctx)
}

// shutdownGrace is the time limit for a step of the shutdown that waits only for the disk. It applies even after ctx
// is done.
const shutdownGrace = 2 * time.Second
