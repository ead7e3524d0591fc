package exporter

import (
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/sdk/instrumentation"
	sdklog "go.opentelemetry.io/otel/sdk/log"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"

	"github.com/entrace-go/entrace/internal/testkit/metrictest"
	testkit "github.com/entrace-go/entrace/internal/testkit/tracetest"
	"github.com/entrace-go/entrace/internal/write/selfmetrics"
	"github.com/entrace-go/entrace/recorder"
)

var must = testkit.Must

// stub is an ended span.
func stub(id byte, name string) tracetest.SpanStub {
	return tracetest.SpanStub{Name: name, SpanContext: trace.NewSpanContext(trace.SpanContextConfig{
		TraceID: trace.TraceID{1}, SpanID: trace.SpanID{id}, TraceFlags: trace.FlagsSampled,
	})}
}

// ofComponents returns s without the lines of the recorder.
func ofComponents(s string) string {
	var b strings.Builder
	for line := range strings.Lines(s) {
		if !strings.Contains(line, "{entrace_recorder/") {
			b.WriteString(line)
		}
	}
	return strings.TrimSpace(b.String())
}

func wantComponents(t *testing.T, all, want string) {
	t.Helper()
	want = strings.ReplaceAll(strings.TrimSpace(want), "\t", "")
	if got := ofComponents(all); got != want {
		t.Errorf("the numbers are\n%s\nwant\n%s", got, want)
	}
}

func TestExporterMetrics(t *testing.T) {
	r := metrictest.Measured(t)
	rec, err := recorder.Create(filepath.Join(t.TempDir(), "app.et"), &recorder.Options{MaxEntrySize: 1}) // raised to the minimum, 2 KiB
	must(t, err)
	e, err := New(WithRecorder(rec))
	must(t, err)
	var many []attribute.KeyValue
	for i := range 200 {
		many = append(many, attribute.Int(fmt.Sprint("attribute ", i), i))
	}
	bad, waits := stub(3, "bad"), stub(2, "waits")
	bad.InstrumentationScope = instrumentation.Scope{Name: "s", Attributes: attribute.NewSet(many...)}
	waits.Parent = stub(9, "").SpanContext
	export := func(stubs ...tracetest.SpanStub) error {
		return e.ExportSpans(t.Context(), tracetest.SpanStubs(stubs).Snapshots())
	}
	must(t, export(stub(1, "good"), waits))
	// The span "bad" is too large, but the recorder finds that out later, when it writes.
	if err := export(bad, stub(4, "good")); err != nil {
		t.Error(err)
	}
	must(t, rec.Close(t.Context()))
	if err := export(stub(5, "late")); !errors.Is(err, recorder.ErrClosed) {
		t.Errorf("the error is %v", err)
	}
	if got := r.Collect(t); !strings.Contains(got, "spans.dropped{entrace_recorder/0,reason=too_large} 1\n") {
		t.Errorf("the numbers are\n%s", got)
	}
	must(t, e.Shutdown(t.Context()))
	if err := errors.Join(e.Shutdown(t.Context()), export(stub(6, "a"), stub(7, "b"))); !errors.Is(err, selfmetrics.ErrShutdown) {
		t.Errorf("the error is %v", err)
	}
	all := r.Collect(t)
	if all != ofComponents(all) {
		t.Errorf("after Shutdown there still is\n%s", all)
	}
	wantComponents(t, all, `
		operation.duration{entrace_span_exporter/0} 2
		operation.duration{error.type=closed,entrace_span_exporter/0} 1
		operation.duration{error.type=shutdown,entrace_span_exporter/0} 1
		span.exported{entrace_span_exporter/0} 4
		span.exported{error.type=closed,entrace_span_exporter/0} 1
		span.exported{error.type=shutdown,entrace_span_exporter/0} 2
		span.inflight{entrace_span_exporter/0} 0`)
}

func TestProcessorMetrics(t *testing.T) {
	r := metrictest.Measured(t)
	metrictest.Handled(t, func() {})
	rec := testkit.CreateAt(t, filepath.Join(t.TempDir(), "app.et"), nil)
	p, err := NewSpanProcessor(WithRecorder(rec))
	must(t, err)
	tp := sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(p))
	tracer := tp.Tracer("")
	_, open := tracer.Start(t.Context(), "open")
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for range 25 {
				_, s := tracer.Start(t.Context(), "s")
				s.End()
			}
		})
	}
	wg.Wait()
	if got := r.Collect(t); !strings.Contains(got, "span.exported{entrace_span_processor/0} 100\n") {
		t.Errorf("the numbers are\n%s", got)
	}
	must(t, rec.Close(t.Context()))
	open.End()
	_, late := tracer.Start(t.Context(), "ends after Shutdown")
	must(t, tp.Shutdown(t.Context()))
	late.End()
	all := r.Collect(t)
	if all != ofComponents(all) {
		t.Errorf("after Shutdown there still is\n%s", all)
	}
	wantComponents(t, all, `
		operation.duration{entrace_span_processor/0} 100
		operation.duration{error.type=closed,entrace_span_processor/0} 1
		span.exported{entrace_span_processor/0} 100
		span.exported{error.type=closed,entrace_span_processor/0} 1
		span.inflight{entrace_span_processor/0} 0`)
}

func TestLogMetrics(t *testing.T) {
	r := metrictest.Measured(t)
	metrictest.Handled(t, func() {})
	rec := testkit.CreateAt(t, filepath.Join(t.TempDir(), "app.et"), nil)
	p, err := NewLogProcessor(WithRecorder(rec))
	must(t, err)
	e, err := NewLogExporter(WithRecorder(rec))
	must(t, err)
	record := func() error {
		return errors.Join(p.OnEmit(t.Context(), new(sdklog.Record)), e.Export(t.Context(), make([]sdklog.Record, 3)))
	}
	must(t, errors.Join(record(), record(), rec.Close(t.Context())))
	if err := record(); !errors.Is(err, recorder.ErrClosed) {
		t.Errorf("the error is %v", err)
	}
	must(t, errors.Join(p.Shutdown(t.Context()), e.Shutdown(t.Context())))
	if err := record(); !errors.Is(err, sdklog.ErrExporterShutdown) {
		t.Errorf("the error is %v", err)
	}
	wantComponents(t, r.Collect(t), `
		log.exported{entrace_log_exporter/0} 6
		log.exported{entrace_log_processor/0} 2
		log.exported{error.type=closed,entrace_log_exporter/0} 3
		log.exported{error.type=closed,entrace_log_processor/0} 1
		log.exported{error.type=shutdown,entrace_log_exporter/0} 3
		log.inflight{entrace_log_exporter/0} 0
		log.inflight{entrace_log_processor/0} 0
		operation.duration{entrace_log_exporter/0} 2
		operation.duration{entrace_log_processor/0} 2
		operation.duration{error.type=closed,entrace_log_exporter/0} 1
		operation.duration{error.type=closed,entrace_log_processor/0} 1
		operation.duration{error.type=shutdown,entrace_log_exporter/0} 1`)
}
