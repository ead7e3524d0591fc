// Package selfmetrics has metrics about this module: its exporters, its live processors, and their
// recorders.
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

	"github.com/entrace-go/entrace/internal/text/notice"
	"github.com/entrace-go/entrace/recorder"
)

// OpenTelemetry's exporters have the same metrics. Ours are also experimental: they exist only if one of
// these variables is "true", in upper or lower case. They go to the global MeterProvider.
const (
	// `false` | `true`: OpenTelemetry metrics of the exporter itself.
	envObservability     = "OTEL_GO_X_OBSERVABILITY"
	envSelfObservability = "OTEL_GO_X_SELF_OBSERVABILITY" // the older name of that variable
)

// The values of otel.component.type. otel.component.name is such a value with a number, for example
// entrace_span_exporter/0.
const (
	ExporterComponent  = "entrace_span_exporter"
	ProcessorComponent = "entrace_span_processor"
	LogExporter        = "entrace_log_exporter"
	LogProcessor       = "entrace_log_processor"
	recorderComponent  = "entrace_recorder"
)

// meterName is the instrumentation scope of the metrics.
const meterName = "github.com/entrace-go/entrace/exporter"

// durations are the bounds of the histogram in seconds. The default bounds of the SDK begin at five
// seconds, but recording takes microseconds.
var durations = []float64{
	.000_005, .000_01, .000_025, .000_05, .000_1, .000_25, .000_5,
	.001, .002_5, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10,
}

// Instruments measure an exporter or a live processor:
//
//	otel.sdk.exporter.span.inflight       spans that are being passed to the recorder
//	otel.sdk.exporter.span.exported       recorded spans; with error.type: spans that failed
//	otel.sdk.exporter.operation.duration  duration of ExportSpans or OnEnd, in seconds
//
// For an exporter or processor of log records, the first two names have log in place of span, and the third
// metric measures Export and OnEmit.
//
// A span counts as exported when the recorder has accepted it. It may then still wait in memory for its
// parent: see the metrics of the recorder in [Observe]. A live processor counts a span at its end, and has
// it in flight only during OnEnd. (The SDK's otel.sdk.span.live counts spans from their start on.) A span
// whose start could not be recorded counts as exported if all of it is recorded at its end. Spans are not
// counted if they go to [recorder.Discard], or if a processor ignores them because they are not sampled or
// end after Shutdown. Spans that reach an exporter after Shutdown count as failed.
//
// Nil Instruments are off: they cost neither time nor memory. Instruments are safe for concurrent use.
type Instruments struct {
	inflight metric.Int64UpDownCounter
	exported metric.Int64Counter
	duration metric.Float64Histogram

	component []attribute.KeyValue
	add       []metric.AddOption    // has the attributes in component
	record    []metric.RecordOption // has the attributes in component
}

// NewInstruments returns instruments of the global MeterProvider, or nil if the metrics are off. It reports
// errors on the console; an instrument that could not be created does nothing. The caller must not hold a
// lock.
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
		notice.Error(fmt.Errorf("entrace: register metrics: %w", err))
	}
	return i
}

// observability reports whether the environment switches the metrics on.
func observability() bool {
	for _, name := range [...]string{envObservability, envSelfObservability} {
		if s := os.Getenv(name); s != "" {
			return strings.EqualFold(s, "true") // not trimmed, as in the SDK
		}
	}
	return false
}

func meter() metric.Meter {
	return otel.GetMeterProvider().Meter(meterName, metric.WithSchemaURL(semconv.SchemaURL))
}

// components counts the components of each type. The name of a component ends with its number.
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

// attributes returns a measurement option with the attributes in both slices, which it does not keep.
func attributes(attrs []attribute.KeyValue, more ...attribute.KeyValue) metric.MeasurementOption {
	return metric.WithAttributeSet(attribute.NewSet(slices.Concat(attrs, more)...))
}

// An Operation measures one call that exports spans or log records. The zero value measures nothing.
type Operation struct {
	instruments *Instruments
	start       time.Time // zero: the duration is not measured
	spans       int
	inflight    bool // inflight was increased, so End must decrease it
}

// Begin begins the measurement of a call that exports spans or log records. The caller must call End once.
func (i *Instruments) Begin(ctx context.Context, spans int) Operation {
	if i == nil {
		return Operation{}
	}
	o := Operation{instruments: i, spans: spans}
	// A MeterProvider that is set between Begin and End must not get only the decrease.
	if o.inflight = i.inflight.Enabled(ctx); o.inflight {
		i.inflight.Add(ctx, int64(spans), i.add...)
	}
	if i.duration.Enabled(ctx) {
		o.start = time.Now()
	}
	return o
}

// End ends the measurement. exported is the number of exported spans; the others of Begin count as failed.
// If err is not nil, the operation counts as failed even if no span failed.
func (o Operation) End(ctx context.Context, exported int, err error) {
	i := o.instruments
	if i == nil {
		return
	}
	if o.inflight {
		i.inflight.Add(ctx, -int64(o.spans), i.add...)
	}
	exported = min(max(exported, 0), o.spans)
	i.exported.Add(ctx, int64(exported), i.add...) // even 0, so that the time series exists
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

// ErrShutdown is returned by an exporter that gets spans or log records after its shutdown.
var ErrShutdown = errors.New("exporter: shut down")

// errorType returns the attribute error.type. Its values are few: shutdown, a reason of recorder.Dropped,
// or the Go type of the error. If err is nil, the value is _OTHER.
func errorType(err error) attribute.KeyValue {
	if errors.Is(err, ErrShutdown) {
		return semconv.ErrorTypeKey.String("shutdown")
	}
	var d recorder.Dropped
	d.Add(err, 1)
	if _, ok := errors.AsType[*fs.PathError](err); d.IO > 0 && !ok {
		return semconv.ErrorType(cause(err)) // "io" is also the reason for unknown errors, so use the Go type
	}
	why := ""
	d.Each(func(reason string, n uint64) {
		if n > 0 {
			why = reason
		}
	})
	return semconv.ErrorTypeKey.String(why)
}

// cause returns the innermost error that err wraps. If several errors are joined, it follows the first. The
// types of outer errors say nothing in a metric.
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

// An Account publishes [recorder.Stats] of one recorder as metrics, for all exporters and processors that
// share the recorder:
//
//	entrace.recorder.entries.written, entrace.recorder.spans.written
//	entrace.recorder.entries.waiting, entrace.recorder.spans.waiting
//	entrace.recorder.entries.dropped, entrace.recorder.spans.dropped  with a reason
//
// The recorder can be freed while the Account exists. When metrics are collected, the Account calls Stats
// while the metrics SDK holds locks. To exclude a deadlock, Stats and all code that holds a lock of the
// recorder must not call OpenTelemetry.
type Account struct {
	recorder weak.Pointer[recorder.Recorder]
	attrs    []attribute.KeyValue
	over     atomic.Bool // publish nothing any more

	users        int                 // number of users, guarded by accounts.mu; 0: the account is closed
	registration metric.Registration // guarded by accounts.mu; nil: not registered yet, or the registration failed
}

// accounts holds the accounts in use.
var accounts struct {
	mu sync.Mutex

	of map[weak.Pointer[recorder.Recorder]]*Account
}

// Observe publishes the Stats of r as metrics. The metrics end when Close has been called as often as
// Observe. Observe returns nil if the metrics are off or r discards everything. If the registration of the
// metrics fails, Observe reports the error on the console, and the account publishes nothing. The caller
// must not hold a lock.
func Observe(r *recorder.Recorder) *Account {
	if r.Discards() || !observability() {
		return nil
	}
	a, first := share(weak.Make(r))
	if !first {
		return a
	}
	registration, err := a.register() // without a lock, because it may report errors
	if err != nil {
		notice.Error(fmt.Errorf("entrace: register metrics: %w", err))
		return a
	}
	accounts.mu.Lock()
	closed := a.users == 0 // all users may have called Close since share
	if !closed {
		a.registration = registration
	}
	accounts.mu.Unlock()
	if closed {
		_ = registration.Unregister() // no user is left who could get the error
	}
	return a
}

// share returns the account of r and adds a user. It returns true for the first user of the account.
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

// register creates the instruments, and registers a callback that sets them at each collection.
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

// Close ends one use of the account. Call it once for each call of Observe. The last Close ends the metrics
// at once, and unregisters the callback. If a collection hangs, the callback cannot be unregistered: Close
// then returns when ctx ends. The caller must not hold a lock that a callback of a meter could need.
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
		return nil // the metrics have ended nevertheless
	}
}

// leave removes a user. After the last one it returns the registration, and the caller must unregister it.
func (a *Account) leave() metric.Registration {
	accounts.mu.Lock()
	defer accounts.mu.Unlock()
	if a.users--; a.users > 0 {
		return nil
	}
	a.over.Store(true)
	delete(accounts.of, a.recorder)
	registration := a.registration
	a.registration = nil // frees the callback
	return registration
}

// counters are the instruments for the fields of a [recorder.Counts].
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
