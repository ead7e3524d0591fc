package exporter

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"
	"go.opentelemetry.io/otel/trace/noop"

	"github.com/entrace-go/entrace/control"
	"github.com/entrace-go/entrace/format"
)

// A Pipeline is what Setup has set up.
type Pipeline struct {
	recorder *format.Recorder
	provider *sdktrace.TracerProvider
	own      sdktrace.SpanProcessor // that records; nil without
	owned    bool                   // the recorder is closed by Shutdown
	account  *account               // nil: off
	control  *control.Control       // nil: none
	ours     bool                   // the control is shut down by Shutdown

	mu   sync.Mutex
	done bool
}

// Setup records the spans of this process as the environment says, and makes its
// TracerProvider and propagator OpenTelemetry's global ones. Use the Recorder for
// log records, and call Shutdown at the end.
//
// With an error, such as a file that cannot be created, the Pipeline is fit for
// use all the same, other exporters included, and only records nothing: a program
// need not end for want of a trace.
func Setup(ctx context.Context, options ...SetupOption) (*Pipeline, error) {
	var c config
	for _, o := range options {
		o.applySetup(&c)
	}
	if disabled() {
		return nothing(&c), nil
	}
	c.setupEnvironment()
	res, err := fullResource(c.resource)
	if err != nil {
		report(fmt.Errorf("exporter: resource: %w", err)) // it is usable all the same
	}
	p := &Pipeline{}
	var failed, cerr error
	if p.control, p.ours, cerr = c.controlled(res); cerr != nil {
		failed = cerr
		p.recorder = format.Discard()
	} else if p.recorder, p.owned, failed = c.open(res); failed != nil {
		p.recorder = format.Discard()
	}
	p.account = observe(p.recorder) // also when there are only logs
	// Logs before the first span find the resource already.
	if _, err := p.recorder.Resource(resourceEntry(res)); err != nil {
		report(err)
	}
	own, others := c.processors(ctx, p.recorder, p.owned)
	var o []sdktrace.TracerProviderOption
	switch {
	case p.control != nil && own != nil:
		s := c.sampler
		if s == nil {
			s = environmentSampler()
		}
		o = append(o, sdktrace.WithSampler(Sampler(s, p.control)))
	case c.sampler != nil:
		o = append(o, sdktrace.WithSampler(c.sampler))
	}
	o = append(append(o, c.provider...), sdktrace.WithResource(res))
	for _, sp := range others {
		o = append(o, sdktrace.WithSpanProcessor(sp))
	}
	if own != nil { // last, to see what the others add
		o = append(o, sdktrace.WithSpanProcessor(own))
	}
	p.own, p.provider = own, sdktrace.NewTracerProvider(o...)
	c.globals(p.provider)
	return p, failed
}

// globals makes tp and the propagator of the environment OpenTelemetry's own.
func (c *config) globals(tp trace.TracerProvider) {
	if c.noGlobals {
		return
	}
	otel.SetTracerProvider(tp)
	if pr := propagator(); pr != nil {
		otel.SetTextMapPropagator(pr)
	}
}

// nothing returns a Pipeline that records nothing. A TracerProvider that was
// shut down hands out tracers that do nothing and leave span contexts alone.
func nothing(c *config) *Pipeline {
	p := &Pipeline{recorder: format.Discard(), provider: sdktrace.NewTracerProvider(), done: true}
	_ = p.provider.Shutdown(context.Background()) // it has no processors
	c.globals(noop.NewTracerProvider())           // traces pass through all the same
	return p
}

// fullResource returns the resource of the spans: what r says, then what the
// environment says now, then the SDK's defaults. The SDK itself reads the
// environment for its defaults but once.
func fullResource(r *resource.Resource) (*resource.Resource, error) {
	if r == nil {
		return resource.Merge(resource.Default(), resource.Environment())
	}
	env, err := resource.Merge(resource.Environment(), r)
	if env == nil {
		env = r
	}
	// Without its schema, which need not be that of r.
	full, merr := resource.Merge(resource.NewSchemaless(resource.Default().Attributes()...), env)
	return full, errors.Join(err, merr)
}

// processors returns those for the exporters that OTEL_TRACES_EXPORTER names: the
// one that records to r, if it is among them, and the others.
func (c *config) processors(ctx context.Context, r *format.Recorder, reports bool) (own sdktrace.SpanProcessor, others []sdktrace.SpanProcessor) {
	s, _ := lookup(envTracesExporter)
	names := list(s)
	if len(names) == 0 {
		names = []string{"entrace"}
	}
	for _, name := range names {
		switch f := c.factories[name]; {
		case strings.EqualFold(name, "none"):
			if len(names) > 1 {
				reportValue(envTracesExporter, s, errors.New("none goes with no other"))
			}
		case strings.EqualFold(name, "entrace"):
			own = c.own(r, reports)
		case f == nil:
			reportValue(envTracesExporter, s, fmt.Errorf("there is no exporter %q; WithSpanExporter adds one", name))
		default:
			e, err := f(ctx)
			if err != nil {
				report(fmt.Errorf("exporter: %s=%q: %q: %w", envTracesExporter, s, name, err))
				continue
			}
			others = append(others, sdktrace.NewBatchSpanProcessor(e))
		}
	}
	return own, others
}

// own returns the processor that records to r.
func (c *config) own(r *format.Recorder, reports bool) sdktrace.SpanProcessor {
	if c.mode == ModeBatch && c.control == nil {
		e := &Exporter{target{recorder: r}}
		e.measure(exporterComponent)
		return sdktrace.NewBatchSpanProcessor(e)
	}
	p := &SpanProcessor{target: target{recorder: r, reports: reports}, unsampled: c.unsampled, open: newOpenSpans()}
	p.follow(c.control)
	p.measure(processorComponent)
	return p
}

// propagator returns the one that OTEL_PROPAGATORS names, nil for none.
func propagator() propagation.TextMapPropagator {
	s, ok := lookup(envPropagators)
	if !ok {
		s = "tracecontext,baggage"
	}
	var out []propagation.TextMapPropagator
	for _, name := range list(s) {
		switch name {
		case "tracecontext":
			out = append(out, propagation.TraceContext{})
		case "baggage":
			out = append(out, propagation.Baggage{})
		case "none":
		default:
			reportValue(envPropagators, s, fmt.Errorf("there is no propagator %q here", name))
		}
	}
	if len(out) == 0 {
		return nil
	}
	return propagation.NewCompositeTextMapPropagator(out...)
}

// Recorder returns the recorder of the process, for log records and entries of
// one's own. When OTEL_SDK_DISABLED is set it drops everything.
func (p *Pipeline) Recorder() *format.Recorder { return p.recorder }

// TracerProvider returns the provider of the spans that are recorded.
func (p *Pipeline) TracerProvider() *sdktrace.TracerProvider { return p.provider }

// Control returns what decides which requests become traces, nil if there is none.
// It may be used all the same.
func (p *Pipeline) Control() *control.Control { return p.control }

// ForceFlush makes sure that spans that have ended, and log records, are in the
// file, where other processes can read them.
func (p *Pipeline) ForceFlush(ctx context.Context) error {
	err := p.provider.ForceFlush(ctx)
	if ferr := p.recorder.Flush(ctx); !errors.Is(ferr, format.ErrClosed) {
		err = errors.Join(err, ferr)
	}
	return err
}

// Shutdown ends recording and finishes the file. With a context that is done it
// leaves a whole IET and returns the context's error. It is idempotent.
func (p *Pipeline) Shutdown(ctx context.Context) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.done {
		return nil
	}
	p.done = true
	finish := ctx.Err() == nil
	// Spans that have ended are recorded whatever the context says, before an
	// exporter of another kind can use up the time that it leaves.
	var err error
	if p.own != nil {
		err = withGrace(ctx, p.own.Shutdown)
	}
	err = errors.Join(err, p.provider.Shutdown(ctx))
	if p.ours {
		if ctx.Err() != nil { // a ring that stays would be taken for that of a crash
			err = errors.Join(err, withGrace(ctx, p.control.Shutdown))
		} else {
			err = errors.Join(err, p.control.Shutdown(ctx))
		}
	}
	switch {
	case !p.owned:
	case finish && ctx.Err() != nil: // the others have used it up
		err = errors.Join(err, withGrace(ctx, p.recorder.Close))
	default:
		err = errors.Join(err, p.recorder.Close(ctx))
	}
	return errors.Join(err, p.account.close(ctx))
}

// withGrace calls fn with a context that leaves it some time, be ctx done or not.
func withGrace(ctx context.Context, fn func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), shutdownGrace)
	defer cancel()
	return fn(ctx)
}

// shutdownGrace is how long recording may take that does not wait for anything
// but the disk.
const shutdownGrace = 2 * time.Second
