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
	"github.com/entrace-go/entrace/internal/env"
	"github.com/entrace-go/entrace/internal/notice"
	"github.com/entrace-go/entrace/recorder"
	"github.com/entrace-go/entrace/slogadapter"
)

// A Pipeline holds the providers and the logger that [Setup] has made.
type Pipeline struct {
	recording *recording
	provider  *sdktrace.TracerProvider
	own       sdktrace.SpanProcessor // that records; nil without
	loggers   *sdklog.LoggerProvider
	ownLogs   *exporter.LogProcessor // that records; nil without

	level slog.Leveler // that is recorded

	mu   sync.Mutex
	done bool
}

// Setup records the spans of this process as the environment says, and makes its
// TracerProvider and propagator OpenTelemetry's global ones. So it does with the records of
// OpenTelemetry's log API, and of bridges to it such as otelzap, unless the program has set a
// LoggerProvider. Use [WithSlogDefault] or the Recorder for the records of log/slog, and call
// Shutdown at the end.
//
// With an error, such as a file that cannot be created, the Pipeline is fit for use all the
// same, other exporters included, and only records nothing: a program need not end for want
// of a trace.
func Setup(ctx context.Context, options ...Option) (*Pipeline, error) {
	c := newConfig(options)
	if disabled() {
		return nothing(c), nil
	}
	unknownVariables()
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
	if own != nil { // last, to see what the others add
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

// levelFor returns the level from which log records are recorded to r.
func (c *config) levelFor(r *recorder.Recorder) slog.Leveler {
	if c.level != nil {
		return c.level
	}
	level := slog.LevelInfo
	if r.IsRing() {
		level = slog.LevelDebug
	}
	if s, ok := env.Lookup(envLevel); ok {
		var l slog.Level
		if err := l.UnmarshalText([]byte(s)); err == nil {
			return l
		}
		env.ReportValue(envLevel, s, errors.New("want debug, info, warn or error, or one with a number, as info+2"))
	}
	return level
}

// globals makes tp and the propagator of the environment OpenTelemetry's own, and a logger
// that records slog's, as far as the options have it so.
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

// LogHandler returns a handler that hands records to console and records them; it is console
// alone if nothing can be recorded. A nil console is text on stderr. What this module itself
// has to say later on, such as that the disk is full, goes to console from now on, at level
// WARN or INFO and with the prefix "entrace: ", and is never recorded.
//
// Recorded are levels from OTEL_EXPORTER_ENTRACE_LEVEL on: by default INFO, and DEBUG for a
// flight recorder. console decides for itself.
func (p *Pipeline) LogHandler(console slog.Handler) slog.Handler {
	if console == nil || fmt.Sprintf("%T", console) == "*slog.defaultHandler" {
		// That one writes through package log, which writes through slog's default, which
		// this may become.
		console = notice.Stderr()
	}
	notice.SetConsole(console)
	r := p.Recorder()
	if r.Discards() {
		return console
	}
	return slog.NewMultiHandler(console, slogadapter.New(r, &slogadapter.Options{Level: p.level}))
}

// endOn shuts p down on the first of the signals, and lets that end the process.
func (p *Pipeline) endOn(signals []os.Signal) {
	if signals == nil {
		return
	}
	got := make(chan os.Signal, 1)
	signal.Notify(got, signals...)
	go func() {
		s := <-got
		signal.Reset(signals...) // the next one ends the process at once
		ctx, cancel := context.WithTimeout(context.Background(), endGrace)
		defer cancel()
		done := make(chan error, 1)
		go func() { done <- p.Shutdown(ctx) }()
		select {
		case err := <-done:
			if err != nil {
				notice.Error(err)
			}
		case <-ctx.Done(): // somebody else shuts down, or an exporter hangs
		}
		if self, err := os.FindProcess(os.Getpid()); err == nil && self.Signal(s) == nil {
			time.Sleep(endGrace) // it ends now
		}
		os.Exit(1) // where a process cannot be sent a signal
	}()
}

// endGrace is how long Shutdown may take after a signal: docker kills after ten seconds.
const endGrace = 5 * time.Second

// nothing returns a Pipeline that records nothing. A TracerProvider that was shut down hands
// out tracers that do nothing and leave span contexts alone.
func nothing(c *config) *Pipeline {
	p := &Pipeline{
		recording: &recording{recorder: recorder.Discard()}, provider: sdktrace.NewTracerProvider(), loggers: sdklog.NewLoggerProvider(), done: true,
	}
	_ = p.provider.Shutdown(context.Background()) // it has no processors
	c.globals(p, noop.NewTracerProvider())        // traces pass through all the same
	return p
}

// processors returns those for the exporters that OTEL_TRACES_EXPORTER names: the one that
// records, if it is among them, and the others.
func (c *config) processors(ctx context.Context, r *recording) (own sdktrace.SpanProcessor, others []sdktrace.SpanProcessor) {
	records, exporters := named(ctx, envTracesExporter, "WithSpanExporter", c.factories)
	for _, e := range exporters {
		others = append(others, sdktrace.NewBatchSpanProcessor(e))
	}
	if records {
		own = c.own(r)
	}
	return own, others
}

// named makes the exporters that a variable lists, of those that option has added, and reports
// whether entrace is to record. It is when nothing of the list was understood.
func named[E any, F ~func(context.Context) (E, error)](ctx context.Context, variable, option string, factories map[string]F) (records bool, others []E) {
	s, _ := env.Lookup(variable)
	names := env.List(s)
	none := false
	for _, name := range names {
		switch f := factories[name]; {
		case strings.EqualFold(name, "none"):
			none = true
			if len(names) > 1 {
				env.ReportValue(variable, s, errors.New("none goes with no other"))
			}
		case strings.EqualFold(name, "entrace"):
			records = true
		case f == nil:
			if _, run := env.Lookup(envRun); run {
				continue // it sets the variables for all languages
			}
			env.ReportValue(variable, s, fmt.Errorf("there is no exporter %q here; %s adds one", name, option))
		default:
			e, err := f(ctx)
			if err != nil {
				notice.Error(fmt.Errorf("entrace: %s=%q: %q: %w", variable, s, name, err))
				continue
			}
			others = append(others, e)
		}
	}
	return records || !none && len(others) == 0, others
}

// own returns the processor that records.
func (c *config) own(r *recording) sdktrace.SpanProcessor {
	o := r.options(c)
	if c.mode == ModeBatch && r.control == nil {
		e, _ := exporter.New(o...) // what could fail is open already
		return sdktrace.NewBatchSpanProcessor(e)
	}
	p, _ := exporter.NewSpanProcessor(o...)
	return p
}

// propagator returns the one that OTEL_PROPAGATORS names, nil for none.
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
			env.ReportValue(envPropagators, s, fmt.Errorf("there is no propagator %q here", name))
		}
	}
	if len(out) == 0 {
		return nil
	}
	return propagation.NewCompositeTextMapPropagator(out...)
}

// Recorder returns the recorder of the process, for log records and entries of one's own.
// When OTEL_SDK_DISABLED is set it drops everything.
func (p *Pipeline) Recorder() *recorder.Recorder { return p.recording.recorder }

// TracerProvider returns the provider of the spans that are recorded.
func (p *Pipeline) TracerProvider() *sdktrace.TracerProvider { return p.provider }

// Control returns what decides which requests become traces, nil if there is none. It may
// be used all the same.
func (p *Pipeline) Control() *control.Control { return p.recording.control }

// LoggerProvider returns the provider of OpenTelemetry's log records that are recorded. It drops
// them with [WithoutLogs].
func (p *Pipeline) LoggerProvider() *sdklog.LoggerProvider { return p.loggers }

// ForceFlush makes sure that spans that have ended, and log records, are in the file, where
// other processes can read them.
func (p *Pipeline) ForceFlush(ctx context.Context) error {
	err := errors.Join(p.provider.ForceFlush(ctx), p.loggers.ForceFlush(ctx))
	if ferr := p.Recorder().Flush(ctx); !errors.Is(ferr, recorder.ErrClosed) {
		err = errors.Join(err, ferr)
	}
	return err
}

// Shutdown ends recording and finishes the file. With a context that is done it leaves a
// whole IET and returns the context's error. It is idempotent.
func (p *Pipeline) Shutdown(ctx context.Context) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.done {
		return nil
	}
	p.done = true
	finish := ctx.Err() == nil
	// Spans that have ended are recorded whatever the context says, before an exporter of
	// another kind can use up the time that it leaves.
	var err error
	if p.own != nil {
		err = withGrace(ctx, p.own.Shutdown)
	}
	err = errors.Join(err, p.provider.Shutdown(ctx))
	// The ends of spans may have been logged until now.
	if p.ownLogs != nil {
		err = errors.Join(err, withGrace(ctx, p.ownLogs.Shutdown))
	}
	err = errors.Join(err, p.loggers.Shutdown(ctx))
	return errors.Join(err, p.recording.close(ctx, finish))
}

// withGrace calls fn with a context that leaves it some time, be ctx done or not.
func withGrace(ctx context.Context, fn func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), shutdownGrace)
	defer cancel()
	return fn(ctx)
}

// lingering returns a context that ends some time after ctx.
func lingering(ctx context.Context) (context.Context, context.CancelFunc) {
	late, cancel := context.WithCancel(context.WithoutCancel(ctx))
	stop := context.AfterFunc(ctx, func() {
		timer := time.AfterFunc(shutdownGrace, cancel)
		context.AfterFunc(late, func() { timer.Stop() })
	})
	return late, func() { stop(); cancel() }
}

// shutdownGrace is how long recording may take that does not wait for anything but the
// disk.
const shutdownGrace = 2 * time.Second
