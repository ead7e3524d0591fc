package selfmetrics

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
	"weak"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/metric/noop"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"

	"github.com/entrace-go/entrace/format"
	"github.com/entrace-go/entrace/internal/testkit/hosttest"
	"github.com/entrace-go/entrace/internal/testkit/metrictest"
	"github.com/entrace-go/entrace/internal/testkit/tracetest"
	"github.com/entrace-go/entrace/recorder"
)

var must = tracetest.Must

func newRecorder(t testing.TB) *recorder.Recorder {
	t.Helper()
	r := tracetest.CreateAt(t, filepath.Join(t.TempDir(), "app.et"), nil)
	t.Cleanup(func() { _ = r.Close(context.Background()) })
	return r
}

func spanOf(id byte, parent format.SpanRef) *tracetest.Span {
	s := &tracetest.Span{}
	s.Ref, s.Parent, s.Wait = spanRef(id), parent, true
	s.Entry.Metadata.Name = "span"
	return s
}

func spanRef(id byte) (r format.SpanRef) {
	r.TraceID[0], r.SpanID[0] = 1, id
	return r
}

// A fakeProvider returns a fixed meter, and counts the calls of Meter.
type fakeProvider struct {
	noop.MeterProvider

	meter  metric.Meter
	meters int
}

func (p *fakeProvider) Meter(string, ...metric.MeterOption) metric.Meter {
	p.meters++
	return p.meter
}

func TestMetricsOff(t *testing.T) {
	for _, test := range []struct {
		value, older string
		want         bool
	}{
		{"", "", false},
		{"true", "", true},
		{"True", "", true},
		{"TRUE", "", true},
		{"", "true", true},
		{"false", "true", false},
		{"1", "", false},
		{"yes", "", false},
		{" true", "", false},
	} {
		t.Run(test.value+" "+test.older, func(t *testing.T) {
			mp := &fakeProvider{meter: noop.Meter{}}
			metrictest.Provide(t, mp)
			t.Setenv(envObservability, test.value)
			t.Setenv(envSelfObservability, test.older)
			i, a := NewInstruments(ExporterComponent), Observe(newRecorder(t))
			if (i != nil) != test.want || (a != nil) != test.want || (mp.meters > 0) != test.want {
				t.Errorf("instruments %v, account %v, %d meters; want any: %t", i != nil, a != nil, mp.meters, test.want)
			}
			must(t, a.Close(t.Context()))
		})
	}
}

func TestMetricsOffCostNothing(t *testing.T) {
	metrictest.Provide(t, &fakeProvider{})
	t.Setenv(envObservability, "")
	ctx, rec, failure := t.Context(), newRecorder(t), io.ErrUnexpectedEOF
	if n := hosttest.Allocations(100, func() {
		i := NewInstruments(ExporterComponent)
		op := i.Begin(ctx, 3)
		if op != (Operation{}) {
			t.Error("an operation that is off has something in it")
		}
		op.End(ctx, 1, failure)
		Operation{}.End(ctx, 1, nil)
		a := Observe(rec)
		if err := a.Close(ctx); err != nil {
			t.Error(err)
		}
	}); n != 0 {
		t.Errorf("%v allocations, want none", n)
	}
}

func TestMetricsOfNothing(t *testing.T) {
	r := metrictest.Measured(t)
	if Observe(recorder.Discard()) != nil || Observe(nil) != nil {
		t.Error("a recorder that discards has an account")
	}
	r.Want(t, "")
}

func TestInstruments(t *testing.T) {
	r := metrictest.Measured(t)
	ctx, cancel := context.WithCancel(t.Context())
	first, second := NewInstruments(ExporterComponent), NewInstruments(ExporterComponent)
	live := NewInstruments(ProcessorComponent)
	op, other := first.Begin(ctx, 3), live.Begin(ctx, 1)
	r.Want(t, `
		span.inflight{entrace_span_exporter/0} 3
		span.inflight{entrace_span_processor/0} 1`)
	cancel() // the metrics ignore the end of ctx
	op.End(ctx, 3, nil)
	other.End(ctx, 1, nil)
	second.Begin(ctx, 0).End(ctx, 0, nil)
	r.Want(t, `
		operation.duration{entrace_span_exporter/0} 1
		operation.duration{entrace_span_exporter/1} 1
		operation.duration{entrace_span_processor/0} 1
		span.exported{entrace_span_exporter/0} 3
		span.exported{entrace_span_exporter/1} 0
		span.exported{entrace_span_processor/0} 1
		span.inflight{entrace_span_exporter/0} 0
		span.inflight{entrace_span_exporter/1} 0
		span.inflight{entrace_span_processor/0} 0`)
}

func TestInstrumentsFailure(t *testing.T) {
	for _, test := range []struct {
		name     string
		exported int
		err      error
		good     int
		bad      int
		kind     string
	}{
		{"all", 0, ErrShutdown, 0, 5, "shutdown"},
		{"some", 3, fmt.Errorf("span 1: %w", format.ErrTooLarge), 3, 2, "too_large"},
		{"none but an error", 5, format.ErrFull, 5, 0, "full"},
		{"some without an error", 4, nil, 4, 1, "_OTHER"},
		{"less than none", -7, recorder.ErrClosed, 0, 5, "closed"},
		{"more than all", 9, recorder.ErrClosed, 5, 0, "closed"},
	} {
		t.Run(test.name, func(t *testing.T) {
			r := metrictest.Measured(t)
			i := NewInstruments(ExporterComponent)
			i.Begin(t.Context(), 5).End(t.Context(), test.exported, test.err)
			r.Want(t, fmt.Sprintf(`
				operation.duration{error.type=%[3]s,entrace_span_exporter/0} 1
				span.exported{error.type=%[3]s,entrace_span_exporter/0} %[2]d
				span.exported{entrace_span_exporter/0} %[1]d
				span.inflight{entrace_span_exporter/0} 0`, test.good, test.bad, test.kind))
		})
	}
}

type typedError struct{}

func (typedError) Error() string { return "typed" }

func TestErrorType(t *testing.T) {
	_, noFile := os.Open(filepath.Join(t.TempDir(), "none"))
	for _, test := range []struct {
		err  error
		want string
	}{
		{nil, "_OTHER"},
		{ErrShutdown, "shutdown"},
		{fmt.Errorf("a: %w", errors.Join(io.EOF, fmt.Errorf("b: %w", recorder.ErrClosed))), "closed"},
		{errors.Join(format.ErrTooLarge, format.ErrFull), "full"},
		{format.ErrInvalid, "invalid"},
		{fmt.Errorf("span: %w", recorder.ErrOverflow), "overflow"},
		{noFile, "io"},
		{fmt.Errorf("record: %w", &fs.PathError{Op: "write", Err: io.ErrShortWrite}), "io"},
		{errors.Join(fmt.Errorf("a: %w", typedError{}), io.EOF), "github.com/entrace-go/entrace/internal/write/selfmetrics.typedError"},
		{fmt.Errorf("a: %w", errors.Join(fmt.Errorf("b: %w", typedError{}))), "github.com/entrace-go/entrace/internal/write/selfmetrics.typedError"},
		{io.EOF, "*errors.errorString"},
	} {
		if got := errorType(test.err); got.Key != "error.type" || got.Value.AsString() != test.want {
			t.Errorf("errorType(%v) is %s=%s, want %s", test.err, got.Key, got.Value.AsString(), test.want)
		}
	}
}

// TestInstrumentsDuration checks the duration in seconds, and the bounds of the histogram.
func TestInstrumentsDuration(t *testing.T) {
	r := metrictest.Measured(t)
	op := NewInstruments(ExporterComponent).Begin(t.Context(), 1)
	op.start = op.start.Add(-3 * time.Millisecond)
	op.End(t.Context(), 1, nil)
	var rm metricdata.ResourceMetrics
	must(t, r.ManualReader.Collect(t.Context(), &rm))
	for _, m := range rm.ScopeMetrics[0].Metrics {
		h, ok := m.Data.(metricdata.Histogram[float64])
		if !ok {
			continue
		}
		p := h.DataPoints[0]
		if m.Unit != "s" || !slices.Equal(p.Bounds, durations) || !slices.IsSorted(durations) || p.Sum < .003 || p.Sum > 60 {
			t.Errorf("%s is %v %s with the bounds %v", m.Name, p.Sum, m.Unit, p.Bounds)
		}
		return
	}
	t.Error("there is no histogram")
}

func TestInstrumentsConcurrent(t *testing.T) {
	r := metrictest.Measured(t)
	i := NewInstruments(ExporterComponent)
	const workers, times = 8, 200
	var wg sync.WaitGroup
	for range workers {
		wg.Go(func() {
			for n := range times {
				op := i.Begin(t.Context(), 3)
				if n%2 == 0 {
					op.End(t.Context(), 3, nil)
				} else {
					op.End(t.Context(), 1, recorder.ErrClosed)
				}
			}
		})
	}
	for range 20 {
		r.Collect(t)
	}
	wg.Wait()
	r.Want(t, fmt.Sprintf(`
		operation.duration{error.type=closed,entrace_span_exporter/0} %[1]d
		operation.duration{entrace_span_exporter/0} %[1]d
		span.exported{error.type=closed,entrace_span_exporter/0} %[2]d
		span.exported{entrace_span_exporter/0} %[3]d
		span.inflight{entrace_span_exporter/0} 0`, workers*times/2, workers*times/2*2, workers*times/2*(3+1)))
}

// A lateMeter measures only if its field here is set, like the global meter, which measures only when a provider is
// set.
type lateMeter struct {
	noop.Meter

	here     bool
	inflight int64
}

func (m *lateMeter) Int64UpDownCounter(string, ...metric.Int64UpDownCounterOption) (metric.Int64UpDownCounter, error) {
	return lateCounter{m: m}, nil
}

type lateCounter struct {
	noop.Int64UpDownCounter

	m *lateMeter
}

func (c lateCounter) Enabled(context.Context) bool { return c.m.here }

func (c lateCounter) Add(_ context.Context, n int64, _ ...metric.AddOption) {
	if c.m.here {
		c.m.inflight += n
	}
}

func TestInflightNeverNegative(t *testing.T) {
	m := &lateMeter{}
	metrictest.Provide(t, &fakeProvider{meter: m})
	i := NewInstruments(ExporterComponent)
	op := i.Begin(t.Context(), 2)
	m.here = true
	op.End(t.Context(), 2, nil)
	if m.inflight != 0 {
		t.Errorf("%d spans are in flight, want 0", m.inflight)
	}
}

// A badMeter returns an error for each instrument.
type badMeter struct{ noop.Meter }

var errBadMeter = errors.New("bad meter")

func (badMeter) Int64Counter(string, ...metric.Int64CounterOption) (metric.Int64Counter, error) {
	return nil, errBadMeter
}

func (badMeter) Int64UpDownCounter(string, ...metric.Int64UpDownCounterOption) (metric.Int64UpDownCounter, error) {
	return nil, errBadMeter
}

func (badMeter) Float64Histogram(string, ...metric.Float64HistogramOption) (metric.Float64Histogram, error) {
	return nil, errBadMeter
}

func (badMeter) Int64ObservableCounter(string, ...metric.Int64ObservableCounterOption) (metric.Int64ObservableCounter, error) {
	return nil, errBadMeter
}

// A badRegistry creates instruments, but RegisterCallback returns an error.
type badRegistry struct{ noop.Meter }

func (badRegistry) RegisterCallback(metric.Callback, ...metric.Observable) (metric.Registration, error) {
	return nil, errBadMeter
}

func TestInstrumentErrors(t *testing.T) {
	for name, test := range map[string]struct {
		meter metric.Meter
		want  int // number of reported errors
	}{
		"instruments": {badMeter{}, 2},
		"callback":    {badRegistry{}, 1},
	} {
		t.Run(name, func(t *testing.T) {
			metrictest.Provide(t, &fakeProvider{meter: test.meter})
			unlocked := func() {
				for _, mu := range []*sync.Mutex{&components.mu, &accounts.mu} {
					if !mu.TryLock() {
						t.Error("an error is reported under a lock")
						continue
					}
					mu.Unlock()
				}
			}
			reports := metrictest.Handled(t, unlocked)
			i, a := NewInstruments(ExporterComponent), Observe(newRecorder(t))
			i.Begin(t.Context(), 3).End(t.Context(), 1, io.EOF)
			must(t, a.Close(t.Context()))
			got := reports()
			for _, s := range got {
				if !strings.Contains(s, "entrace: register metrics: bad meter") {
					t.Errorf("the report is %q", s)
				}
			}
			if len(got) != test.want || len(accounts.of) > 0 {
				t.Errorf("%d reports, want %d; %d accounts are left", len(got), test.want, len(accounts.of))
			}
		})
	}
}

func TestAccount(t *testing.T) {
	r := metrictest.Measured(t)
	rec := newRecorder(t)
	a := Observe(rec)
	must(t, tracetest.WriteSpan(rec, spanOf(1, format.SpanRef{})))
	child := spanOf(2, spanRef(9)) // a span whose parent is not recorded
	child.Children = []format.TraceEntry{*tracetest.Entry("event")}
	must(t, tracetest.WriteSpan(rec, child))
	if s := settled(t, rec); s.Spans.Written != 1 || s.Spans.Waiting != 1 || s.Entries.Waiting != 2 {
		t.Fatalf("the account is %+v", s)
	}
	r.Want(t, numbers(rec))

	must(t, rec.Close(t.Context()))
	if err := tracetest.WriteSpan(rec, child); !errors.Is(err, recorder.ErrClosed) {
		t.Fatalf("the error is %v", err)
	}
	r.Want(t, numbers(rec))
	got := r.Collect(t)
	for _, want := range []string{
		"entries.waiting{entrace_recorder/0} 0",
		"entries.dropped{entrace_recorder/0,reason=closed} 2",
		"spans.written{entrace_recorder/0} 2",
		"spans.waiting{entrace_recorder/0} 0",
		"spans.dropped{entrace_recorder/0,reason=closed} 1",
		"spans.dropped{entrace_recorder/0,reason=io} 0",
	} {
		if !strings.Contains(got+"\n", want+"\n") {
			t.Errorf("the numbers of a closed recorder are\n%s\nwant %s", got, want)
		}
	}

	must(t, a.Close(t.Context()))
	r.Want(t, "")
}

// settled returns the Stats after the recorder's goroutine has written all records.
func settled(t testing.TB, rec *recorder.Recorder) recorder.Stats {
	t.Helper()
	must(t, rec.Sync(context.Background()))
	return rec.Stats()
}

// numbers returns the metrics that the first account should have, from the Stats of rec.
func numbers(rec *recorder.Recorder) string {
	var b strings.Builder
	s := rec.Stats()
	for what, n := range map[string]recorder.Counts{"entries": s.Entries, "spans": s.Spans} {
		fmt.Fprintf(&b, "%s.written{entrace_recorder/0} %d\n", what, n.Written)
		fmt.Fprintf(&b, "%s.waiting{entrace_recorder/0} %d\n", what, n.Waiting)
		n.Dropped.Each(func(reason string, n uint64) {
			fmt.Fprintf(&b, "%s.dropped{entrace_recorder/0,reason=%s} %d\n", what, reason, n)
		})
	}
	return b.String()
}

func TestAccountIsShared(t *testing.T) {
	r := metrictest.Measured(t)
	rec, other := newRecorder(t), newRecorder(t)
	a, b, c := Observe(rec), Observe(rec), Observe(other)
	if a != b || a == c {
		t.Error("an account is that of a recorder")
	}
	if got, want := strings.Count(r.Collect(t), "\n"), 2*strings.Count(numbers(rec), "\n")-1; got != want {
		t.Errorf("two recorders have %d numbers, want %d", got+1, want+1)
	}
	closeAll := func(accounts ...*Account) {
		for _, a := range accounts {
			if err := a.Close(t.Context()); err != nil {
				t.Error(err)
			}
		}
	}
	closeAll(a)
	if got := r.Collect(t); !strings.Contains(got, "entries.written{entrace_recorder/0} ") {
		t.Errorf("with a user that is left the numbers are\n%s", got)
	}
	closeAll(c, b)
	r.Want(t, "")
	d := Observe(rec) // observe it again
	if got := r.Collect(t); !strings.Contains(got, "entries.written{entrace_recorder/2} ") {
		t.Errorf("observed again, the numbers are\n%s", got)
	}
	closeAll(d)
	if r.Want(t, ""); len(accounts.of) > 0 {
		t.Errorf("%d accounts are left", len(accounts.of))
	}
}

func TestAccountConcurrent(t *testing.T) {
	r := metrictest.Measured(t)
	recs := []*recorder.Recorder{newRecorder(t), newRecorder(t)}
	var wg sync.WaitGroup
	for n := range 8 {
		wg.Go(func() {
			for i := range 50 {
				rec := recs[(n+i)%2]
				a := Observe(rec)
				if err := tracetest.WriteSpan(rec, spanOf(byte(n), format.SpanRef{})); err != nil {
					t.Error(err)
				}
				if err := a.Close(t.Context()); err != nil {
					t.Error(err)
				}
			}
		})
	}
	for range 50 {
		r.Collect(t)
	}
	wg.Wait()
	if r.Want(t, ""); len(accounts.of) > 0 {
		t.Errorf("%d accounts are left", len(accounts.of))
	}
}

func TestAccountKeepsNoRecorder(t *testing.T) {
	r := metrictest.Measured(t)
	rec := weak.Make(newRecorderFor(t)) // no one has closed its account
	for range 100 {
		runtime.GC()
		if rec.Value() == nil {
			break
		}
		time.Sleep(time.Millisecond)
	}
	if rec.Value() != nil {
		t.Error("the closed recorder is still there")
	}
	r.Want(t, "")
	accounts.mu.Lock()
	left := slices.Collect(maps.Values(accounts.of))
	accounts.mu.Unlock()
	for _, a := range left {
		must(t, a.Close(t.Context()))
	}
}

// newRecorderFor returns a closed recorder with an account that is not closed. The test has no reference to
// the recorder.
func newRecorderFor(t *testing.T) *recorder.Recorder {
	t.Helper()
	r := tracetest.CreateAt(t, filepath.Join(t.TempDir(), "app.et"), nil)
	Observe(r)
	must(t, r.Close(t.Context()))
	return r
}

// TestAccountCloseInCollection closes an account in a callback of a collection. The account cannot be
// unregistered then, because the SDK holds a lock. This happens if a callback reports an error and the
// error handler shuts tracing down.
func TestAccountCloseInCollection(t *testing.T) {
	r := metrictest.Measured(t)
	var a *Account
	must(t, first(t, func() {
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
		defer cancel()
		if err := a.Close(ctx); err != nil {
			t.Error(err)
		}
	}))
	a = Observe(newRecorder(t)) // its callback is called after the one of first
	done := make(chan struct{})
	go func() {
		defer close(done)
		r.Want(t, "")
	}()
	select {
	case <-done:
	case <-time.After(20 * time.Second):
		t.Fatal("deadlock")
	}
}

// first registers a callback that calls fn during the first collection.
func first(t *testing.T, fn func()) error {
	t.Helper()
	var once sync.Once
	m := otel.GetMeterProvider().Meter("other")
	g, err := m.Int64ObservableGauge("gauge")
	if err != nil {
		return err
	}
	_, err = m.RegisterCallback(func(context.Context, metric.Observer) error {
		once.Do(fn)
		return nil
	}, g)
	return err
}

// A registry is a meter that counts the registered callbacks.
type registry struct {
	metric.Meter

	before func() // called before each registration
	n      atomic.Int64
}

func (m *registry) RegisterCallback(f metric.Callback, on ...metric.Observable) (metric.Registration, error) {
	m.before()
	m.n.Add(1)
	reg, err := m.Meter.RegisterCallback(f, on...)
	return &registered{Registration: reg, m: m}, err
}

type registered struct {
	metric.Registration

	m *registry
}

func (r *registered) Unregister() error {
	r.m.n.Add(-1)
	return r.Registration.Unregister()
}

func TestAccountUnregisters(t *testing.T) {
	metrictest.Measured(t)
	m := &registry{Meter: otel.GetMeterProvider().Meter(meterName), before: func() {}}
	metrictest.Provide(t, &fakeProvider{meter: m})
	rec := newRecorder(t)
	for i, want := range []int64{1, 1, 1, 0} {
		if i < 2 {
			Observe(rec)
		} else if err := accounts.of[weak.Make(rec)].Close(t.Context()); err != nil {
			t.Error(err)
		}
		if got := m.n.Load(); got != want {
			t.Errorf("step %d: %d callbacks are registered, want %d", i, got, want)
		}
	}
}

// TestAccountClosedInObserve closes the account for all users while Observe registers it.
func TestAccountClosedInObserve(t *testing.T) {
	r := metrictest.Measured(t)
	rec := newRecorder(t)
	m := &registry{Meter: otel.GetMeterProvider().Meter(meterName), before: func() {
		a := Observe(rec) // the second user
		for range 2 {
			if err := a.Close(t.Context()); err != nil {
				t.Error(err)
			}
		}
	}}
	metrictest.Provide(t, &fakeProvider{meter: m})
	Observe(rec)
	if n := m.n.Load(); n != 0 || len(accounts.of) > 0 {
		t.Errorf("%d callbacks and %d accounts are left", n, len(accounts.of))
	}
	r.Want(t, "")
}

func BenchmarkInstruments(b *testing.B) {
	for _, on := range []string{"", "true"} {
		b.Run("on="+on, func(b *testing.B) {
			metrictest.Measured(b)
			b.Setenv(envObservability, on)
			i := NewInstruments(ProcessorComponent)
			ctx := b.Context()
			b.ReportAllocs()
			for b.Loop() {
				i.Begin(ctx, 1).End(ctx, 1, nil)
			}
		})
	}
}
