// Package selfmetrics has metrics of this module itself: of exporters, of live processors, and
// of the recorders that they write to.
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

// OpenTelemetry's own exporters have the same metrics. Like theirs, the metrics are experimental:
// they exist if one of these variables is "true", in upper or lower case, and they go to the global
// MeterProvider.
const (
	// `false` | `true`: OpenTelemetry metrics of the exporter itself.
	envObservability     = "OTEL_GO_X_OBSERVABILITY"
	envSelfObservability = "OTEL_GO_X_SELF_OBSERVABILITY" // its older name
)

// The values of otel.component.type. A value of otel.component.name is one of these with a
// number, such as entrace_span_exporter/0.
const (
	ExporterComponent  = "entrace_span_exporter"
	ProcessorComponent = "entrace_span_processor"
	LogExporter        = "entrace_log_exporter"
	LogProcessor       = "entrace_log_processor"
	recorderComponent  = "entrace_recorder"
)

// meterName is the instrumentation scope of the metrics.
const meterName = "github.com/entrace-go/entrace/exporter"

// durations are the histogram's bounds in seconds. The SDK's default bounds begin at five
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
// For an exporter or processor of log records, the first two names have log in place of span,
// and the third metric measures Export and OnEmit.
//
// A span counts as exported once the recorder has accepted it, even if the span then waits in
// memory for its parent. The metrics of the recorder show what happens to it later, see [Observe].
// A live processor counts a span only at its end. The span is in flight during OnEnd, and not from
// OnStart on; the SDK's otel.sdk.span.live counts spans from their start on. If the start of a span
// could not be recorded, but its whole data is recorded at its end, the span counts as exported.
// Spans are not counted if a processor ignores them, because they are not sampled or end after
// Shutdown, or if they go to [recorder.Discard]. Spans that reach an exporter after Shutdown count
// as failed.
//
// Nil Instruments are off: they cost neither time nor memory. Instruments are safe for
// concurrent use.
type Instruments struct {
	inflight metric.Int64UpDownCounter
	exported metric.Int64Counter
	duration metric.Float64Histogram

	component []attribute.KeyValue
	add       []metric.AddOption    // the attributes in component
	record    []metric.RecordOption // the attributes in component
}

// NewInstruments returns instruments of the global MeterProvider, or nil if the metrics are off.
// Errors are reported on the console; an instrument that could not be created does nothing. The
// caller must not hold a lock.
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
			return strings.EqualFold(s, "true") // not trimmed, like in the SDK
		}
	}
	return false
}

func meter() metric.Meter {
	return otel.GetMeterProvider().Meter(meterName, metric.WithSchemaURL(semconv.SchemaURL))
}

// components counts the components of each type. The names of components contain these counts.
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

// attributes returns a measurement option with attrs and more. It keeps neither slice.
func attributes(attrs []attribute.KeyValue, more ...attribute.KeyValue) metric.MeasurementOption {
	return metric.WithAttributeSet(attribute.NewSet(slices.Concat(attrs, more)...))
}

// An Operation measures one call that exports spans or log records. The zero value does nothing.
type Operation struct {
	instruments *Instruments
	start       time.Time // zero: the duration is not measured
	spans       int
	inflight    bool // inflight was increased, and End has to decrease it
}

// Begin begins the measurement of a call that exports spans or log records. The caller must call
// End once.
func (i *Instruments) Begin(ctx context.Context, spans int) Operation {
	if i == nil {
		return Operation{}
	}
	o := Operation{instruments: i, spans: spans}
	// If a MeterProvider is set between Begin and End, it must not get the decrease without the increase.
	if o.inflight = i.inflight.Enabled(ctx); o.inflight {
		i.inflight.Add(ctx, int64(spans), i.add...)
	}
	if i.duration.Enabled(ctx) {
		o.start = time.Now()
	}
	return o
}

// End counts as many spans as exported as the parameter exported says, and the remaining spans as
// failed. If err is not nil, the operation counts as failed, even if no span was lost.
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

// ErrShutdown is the error of an exporter that is called with spans or log records after its shutdown.
var ErrShutdown = errors.New("exporter: shut down")

// errorType returns the attribute error.type. It has few values: shutdown, the recorder's
// reasons for dropping a record, or a Go type; for nil it is _OTHER.
func errorType(err error) attribute.KeyValue {
	if errors.Is(err, ErrShutdown) {
		return semconv.ErrorTypeKey.String("shutdown")
	}
	var d recorder.Dropped
	d.Add(err, 1)
	if _, ok := errors.AsType[*fs.PathError](err); d.IO > 0 && !ok {
		return semconv.ErrorType(cause(err)) // the recorder's only reason for this error is io, so use its type
	}
	why := ""
	d.Each(func(reason string, n uint64) {
		if n > 0 {
			why = reason
		}
	})
	return semconv.ErrorTypeKey.String(why)
}

// cause returns the innermost error that err wraps. If errors are joined, it follows the first. The
// types of wrappers would be useless in a metric.
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

// An Account publishes [recorder.Stats] of one recorder as metrics, for all exporters and
// processors that share the recorder:
//
//	entrace.recorder.entries.written, entrace.recorder.spans.written
//	entrace.recorder.entries.waiting, entrace.recorder.spans.waiting
//	entrace.recorder.entries.dropped, entrace.recorder.spans.dropped  with a reason
//
// It does not keep the recorder alive. When a metric reader collects, the Account calls Stats
// while the metrics SDK holds locks. Stats may wait for a running write. But neither Stats nor
// any code that holds the recorder's lock may ever call OpenTelemetry, or a deadlock is
// possible.
type Account struct {
	recorder weak.Pointer[recorder.Recorder]
	attrs    []attribute.KeyValue
	over     atomic.Bool // no further metrics are published

	users        int                 // guarded by accounts.mu; 0: the account is closed
	registration metric.Registration // guarded by accounts.mu; nil: not registered yet, or registering failed
}

// accounts holds the accounts that are in use.
var accounts struct {
	mu sync.Mutex

	of map[weak.Pointer[recorder.Recorder]]*Account
}

// Observe publishes the Stats of r as metrics until Close was called as often as Observe for r.
// It returns nil if the metrics are off or r discards everything. If the metrics cannot be
// registered, the error is reported on the console and the account has no metrics. The caller must
// not hold a lock.
func Observe(r *recorder.Recorder) *Account {
	if r.Discards() || !observability() {
		return nil
	}
	a, first := share(weak.Make(r))
	if !first {
		return a
	}
	registration, err := a.register() // may report errors itself, so no lock is held
	if err != nil {
		notice.Error(fmt.Errorf("entrace: metrics: %w", err))
		return a
	}
	accounts.mu.Lock()
	closed := a.users == 0 // the users may have closed the account in the meantime
	if !closed {
		a.registration = registration
	}
	accounts.mu.Unlock()
	if closed {
		_ = registration.Unregister() // no user is left to get the error
	}
	return a
}

// share returns the account of r and adds one user. first reports whether this user is the first.
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

// register creates the instruments and registers a callback that sets them on every collection.
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

// Close ends the use that one call of Observe began. Call it once for each call of Observe. The
// last Close ends the metrics at once. It unregisters them before it returns, unless ctx is done
// first, because a collection that hangs must not block Shutdown. The caller must not hold a lock
// that a callback of a meter could need.
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
		return nil // the metrics have ended in any case
	}
}

// leave removes one user. If that was the last user, leave returns the registration, which the caller
// has to undo.
func (a *Account) leave() metric.Registration {
	accounts.mu.Lock()
	defer accounts.mu.Unlock()
	if a.users--; a.users > 0 {
		return nil
	}
	a.over.Store(true)
	delete(accounts.of, a.recorder)
	registration := a.registration
	a.registration = nil // free the callback, to which the registration refers
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
