// Package selfmetrics measures what records: exporters and live processors, and the
// recorders below them.
package selfmetrics

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"
	"weak"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
	semconv "go.opentelemetry.io/otel/semconv/v1.43.0"
	"go.opentelemetry.io/otel/semconv/v1.43.0/otelconv"

	"github.com/entrace-go/entrace/internal/notice"
	"github.com/entrace-go/entrace/recorder"
)

// The metrics are what OpenTelemetry's own exporters measure of themselves, and
// like theirs an experiment: they are there when one of these variables is
// "true", in any case, and go to the global MeterProvider.
const (
	// `false` | `true`: metrics of the exporter itself.
	envObservability     = "OTEL_GO_X_OBSERVABILITY"
	envSelfObservability = "OTEL_GO_X_SELF_OBSERVABILITY" // its older name
)

// The values of otel.component.type. Those of otel.component.name are these with
// a number, as in entrace_span_exporter/0.
const (
	ExporterComponent  = "entrace_span_exporter"
	ProcessorComponent = "entrace_span_processor"
	LogExporter        = "entrace_log_exporter"
	LogProcessor       = "entrace_log_processor"
	recorderComponent  = "entrace_recorder"
)

// meterName is the instrumentation scope of the metrics.
const meterName = "github.com/entrace-go/entrace/exporter"

// durations are the histogram's bounds in seconds. The SDK's own begin at five
// seconds, and recording takes microseconds.
var durations = []float64{
	.000_005, .000_01, .000_025, .000_05, .000_1, .000_25, .000_5,
	.001, .002_5, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10,
}

// Instruments measure an exporter or a live processor:
//
//	otel.sdk.exporter.span.inflight       spans that are being handed to the recorder
//	otel.sdk.exporter.span.exported       those that were; error.type: those that were not
//	otel.sdk.exporter.operation.duration  of ExportSpans, and of OnEnd, in seconds
//
// For one of log records the first two have log in place of span, and the third is of Export and
// of OnEmit.
//
// A span counts as exported once the recorder has taken it, even if it waits in
// memory for its parent then: what became of it is in the recorder's account, see
// [Observe]. A live processor's span counts at its end alone. It is in flight
// during OnEnd, not from OnStart on, for that would be the SDK's
// otel.sdk.span.live. A span whose start could not be recorded counts as exported
// if its end brings all of it into the file. What a processor ignores, because it
// is not sampled or comes after Shutdown, and what goes to [recorder.Discard], is
// not counted; an exporter's spans after Shutdown count as failed.
//
// Nil instruments are off: they cost neither time nor memory. Instruments are
// safe for concurrent use.
type Instruments struct {
	inflight metric.Int64UpDownCounter
	exported metric.Int64Counter
	duration metric.Float64Histogram

	component []attribute.KeyValue
	add       []metric.AddOption    // component
	record    []metric.RecordOption // component
}

// NewInstruments returns instruments of the global MeterProvider, nil when they
// are off. An error is reported, and what could not be created does nothing. No
// lock may be held.
func NewInstruments(componentType string) *Instruments {
	if !observability() {
		return nil
	}
	m := meter()
	duration, err3 := otelconv.NewSDKExporterOperationDuration(m, metric.WithExplicitBucketBoundaries(durations...))
	i := &Instruments{duration: duration.Inst(), component: component(componentType)}
	var err1, err2 error
	if componentType == LogExporter || componentType == LogProcessor {
		inflight, err := otelconv.NewSDKExporterLogInflight(m)
		i.inflight, err1 = inflight.Inst(), err
		exported, err := otelconv.NewSDKExporterLogExported(m)
		i.exported, err2 = exported.Inst(), err
	} else {
		inflight, err := otelconv.NewSDKExporterSpanInflight(m)
		i.inflight, err1 = inflight.Inst(), err
		exported, err := otelconv.NewSDKExporterSpanExported(m)
		i.exported, err2 = exported.Inst(), err
	}
	set := attributes(i.component)
	i.add, i.record = []metric.AddOption{set}, []metric.RecordOption{set}
	if err := errors.Join(err1, err2, err3); err != nil {
		notice.Error(fmt.Errorf("entrace: metrics: %w", err))
	}
	return i
}

// observability reports whether the environment asks for metrics.
func observability() bool {
	for _, name := range [...]string{envObservability, envSelfObservability} {
		if s := os.Getenv(name); s != "" {
			return strings.EqualFold(s, "true") // untrimmed, as the SDK has it
		}
	}
	return false
}

func meter() metric.Meter {
	return otel.GetMeterProvider().Meter(meterName, metric.WithSchemaURL(semconv.SchemaURL))
}

// components counts the components of each type, for their names.
var components struct {
	mu sync.Mutex

	n map[string]int
}

// component returns the attributes of a new component.
func component(componentType string) []attribute.KeyValue {
	components.mu.Lock()
	defer components.mu.Unlock()
	if components.n == nil {
		components.n = make(map[string]int)
	}
	n := components.n[componentType]
	components.n[componentType]++
	return []attribute.KeyValue{
		semconv.OTelComponentName(fmt.Sprintf("%s/%d", componentType, n)),
		semconv.OTelComponentTypeKey.String(componentType),
	}
}

// attributes returns the option for attrs and more, and keeps neither.
func attributes(attrs []attribute.KeyValue, more ...attribute.KeyValue) metric.MeasurementOption {
	return metric.WithAttributeSet(attribute.NewSet(slices.Concat(attrs, more)...))
}

// An Operation is one call that exports spans. The zero value does nothing.
type Operation struct {
	instruments *Instruments
	start       time.Time // zero: nobody wants the duration
	spans       int
	inflight    bool // was counted, and has to be taken back
}

// Begin starts to export spans. The operation must be ended once.
func (i *Instruments) Begin(ctx context.Context, spans int) Operation {
	if i == nil {
		return Operation{}
	}
	o := Operation{instruments: i, spans: spans}
	// A MeterProvider may come between here and end. It must not be told only
	// that something went.
	if o.inflight = i.inflight.Enabled(ctx); o.inflight {
		i.inflight.Add(ctx, int64(spans), i.add...)
	}
	if i.duration.Enabled(ctx) {
		o.start = time.Now()
	}
	return o
}

// End counts spans as exported, and what is left as failed. There may be an error
// with no span lost: it says that the operation was no success.
func (o Operation) End(ctx context.Context, exported int, err error) {
	i := o.instruments
	if i == nil {
		return
	}
	if o.inflight {
		i.inflight.Add(ctx, -int64(o.spans), i.add...)
	}
	exported = min(max(exported, 0), o.spans)
	i.exported.Add(ctx, int64(exported), i.add...) // even 0, so that the series exists
	record := i.record
	if failed := o.spans - exported; err != nil || failed > 0 {
		set := attributes(i.component, errorType(err))
		i.exported.Add(ctx, int64(failed), set)
		record = []metric.RecordOption{set}
	}
	if !o.start.IsZero() {
		i.duration.Record(ctx, time.Since(o.start).Seconds(), record...)
	}
}

// ErrShutdown is why an exporter that was shut down takes no spans.
var ErrShutdown = errors.New("exporter: shut down")

// errorType returns the attribute error.type. It has few values: shutdown, the reasons for
// which a recorder drops something, else a Go type; _OTHER for nil.
func errorType(err error) attribute.KeyValue {
	if errors.Is(err, ErrShutdown) {
		return semconv.ErrorTypeKey.String("shutdown")
	}
	var d recorder.Dropped
	d.Add(err, 1)
	if _, ok := errors.AsType[*fs.PathError](err); d.IO > 0 && !ok {
		return semconv.ErrorType(cause(err)) // the recorder has no other name for it than io
	}
	why := ""
	d.Each(func(reason string, n uint64) {
		if n > 0 {
			why = reason
		}
	})
	return semconv.ErrorTypeKey.String(why)
}

// cause returns what the first error of joined ones wraps: the types of wrappers
// say nothing.
func cause(err error) error {
	for {
		next := errors.Unwrap(err)
		if joined, ok := err.(interface{ Unwrap() []error }); ok && len(joined.Unwrap()) > 0 {
			next = joined.Unwrap()[0]
		}
		if next == nil {
			return err
		}
		err = next
	}
}

// An Account mirrors the account of one recorder, [recorder.Stats], for all
// exporters and processors that share it:
//
//	entrace.recorder.entries.written, entrace.recorder.spans.written
//	entrace.recorder.entries.waiting, entrace.recorder.spans.waiting
//	entrace.recorder.entries.dropped, entrace.recorder.spans.dropped  with a reason
//
// It does not keep the recorder alive. While a reader collects, it asks for
// Stats, with locks of the metrics SDK held: Stats may wait for a write that is
// under way, but neither it nor what holds the recorder's lock may ever lead into
// OpenTelemetry.
type Account struct {
	recorder weak.Pointer[recorder.Recorder]
	attrs    []attribute.KeyValue
	over     atomic.Bool // there is nothing to tell any more

	users        int                 // guarded by accounts.mu; 0: over
	registration metric.Registration // guarded by accounts.mu; nil: not yet, or failed
}

// accounts has the accounts that are in use.
var accounts struct {
	mu sync.Mutex

	of map[weak.Pointer[recorder.Recorder]]*Account
}

// Observe makes the account of r a metric until each account that was returned
// for r is closed. It returns nil when metrics are off or r keeps no account. An
// error is reported, and the account has no metrics then. No lock may be held.
func Observe(r *recorder.Recorder) *Account {
	if r.Discards() || !observability() {
		return nil
	}
	a, first := share(weak.Make(r))
	if !first {
		return a
	}
	registration, err := a.register() // may report by itself: no lock is held
	if err != nil {
		notice.Error(fmt.Errorf("entrace: metrics: %w", err))
		return a
	}
	accounts.mu.Lock()
	closed := a.users == 0 // by others, meanwhile
	if !closed {
		a.registration = registration
	}
	accounts.mu.Unlock()
	if closed {
		_ = registration.Unregister() // nobody is left to be told
	}
	return a
}

// share returns the account of r for one more user, and whether it is the first.
func share(r weak.Pointer[recorder.Recorder]) (a *Account, first bool) {
	accounts.mu.Lock()
	defer accounts.mu.Unlock()
	a = accounts.of[r]
	if first = a == nil; first {
		a = &Account{recorder: r, attrs: component(recorderComponent)}
		if accounts.of == nil {
			accounts.of = make(map[weak.Pointer[recorder.Recorder]]*Account)
		}
		accounts.of[r] = a
	}
	a.users++
	return a, first
}

// register creates the instruments and lets every collection fill them.
func (a *Account) register() (metric.Registration, error) {
	m := meter()
	entries, err1 := newCounters(m, "entries", "{entry}")
	spans, err2 := newCounters(m, "spans", "{span}")
	if err := errors.Join(err1, err2); err != nil {
		return nil, err
	}
	return m.RegisterCallback(func(_ context.Context, o metric.Observer) error {
		r := a.recorder.Value()
		if r == nil || a.over.Load() {
			return nil
		}
		s := r.Stats()
		entries.observe(o, a.attrs, &s.Entries)
		spans.observe(o, a.attrs, &s.Spans)
		return nil
	}, slices.Concat(entries.observables(), spans.observables())...)
}

// Close ends the use that one call of Observe began; there must be no second one
// for it. The last use ends the metrics at once, and undoes their registration
// before Close returns, unless ctx is done first: a collection that hangs must
// not hang Shutdown. No lock may be held that a callback of a meter could want.
func (a *Account) Close(ctx context.Context) error {
	if a == nil {
		return nil
	}
	registration := a.leave()
	if registration == nil {
		return nil
	}
	done := make(chan error, 1)
	go func() { done <- registration.Unregister() }()
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
		return nil // no numbers come any more, in any case
	}
}

// leave takes one user away, and returns what the last one has to undo.
func (a *Account) leave() metric.Registration {
	accounts.mu.Lock()
	defer accounts.mu.Unlock()
	if a.users--; a.users > 0 {
		return nil
	}
	a.over.Store(true)
	delete(accounts.of, a.recorder)
	registration := a.registration
	a.registration = nil // it refers to the callback
	return registration
}

// counters are the instruments for a [recorder.Counts].
type counters struct {
	written metric.Int64ObservableCounter
	waiting metric.Int64ObservableUpDownCounter
	dropped metric.Int64ObservableCounter
}

func newCounters(m metric.Meter, what, unit string) (c counters, err error) {
	var errs [3]error
	c.written, errs[0] = m.Int64ObservableCounter("entrace.recorder."+what+".written",
		metric.WithUnit(unit), metric.WithDescription("The number of "+what+" that are in the file."))
	c.waiting, errs[1] = m.Int64ObservableUpDownCounter("entrace.recorder."+what+".waiting",
		metric.WithUnit(unit), metric.WithDescription("The number of "+what+" that were taken and are not in the file yet."))
	c.dropped, errs[2] = m.Int64ObservableCounter("entrace.recorder."+what+".dropped",
		metric.WithUnit(unit), metric.WithDescription("The number of "+what+" that could not be recorded."))
	return c, errors.Join(errs[:]...)
}

func (c *counters) observables() []metric.Observable {
	return []metric.Observable{c.written, c.waiting, c.dropped}
}

func (c *counters) observe(o metric.Observer, attrs []attribute.KeyValue, n *recorder.Counts) {
	set := attributes(attrs)
	o.ObserveInt64(c.written, int64(n.Written), set)
	o.ObserveInt64(c.waiting, int64(n.Waiting), set)
	n.Dropped.Each(func(reason string, n uint64) {
		o.ObserveInt64(c.dropped, int64(n), attributes(attrs, attribute.String("reason", reason)))
	})
}
