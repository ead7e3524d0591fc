package exporter_test

import (
	"context"
	"runtime"
	"strings"
	"testing"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/sdk/instrumentation"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"

	"github.com/entrace-go/entrace/exporter"
)

// partOfBody returns text as a part of a body of 1 MB, as a parser that copies nothing does.
func partOfBody(text string) string {
	return (text + strings.Repeat("x", 1<<20))[:len(text)]
}

// heapMB returns how much of the heap is in use after a collection.
func heapMB() uint64 {
	for range 3 { // what is in a sync.Pool goes with the second
		runtime.GC()
	}
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc >> 20
}

// TestSpansKeepNoCallersMemory records spans whose texts are short parts of large bodies,
// and checks that the bodies can be collected.
func TestSpansKeepNoCallersMemory(t *testing.T) {
	const bodies = 100
	part := func(key string) attribute.KeyValue { return attribute.String(partOfBody(key), partOfBody("ada")) }
	for _, test := range []struct {
		name string
		run  func(p *exporter.SpanProcessor, e *exporter.Exporter)
	}{
		{"live", func(p *exporter.SpanProcessor, _ *exporter.Exporter) {
			tracer := sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(p)).Tracer("shop")
			for range bodies {
				_, s := tracer.Start(context.Background(), partOfBody("GET"), trace.WithAttributes(part("user")))
				s.SetAttributes(part("item"), part("a key of more than sixteen bytes"))
				s.AddEvent(partOfBody("paid"), trace.WithAttributes(part("sum")))
				s.SetStatus(codes.Error, partOfBody("no"))
				s.SetName(partOfBody("GET /"))
				s.End()
			}
		}},
		{"exported", func(_ *exporter.SpanProcessor, e *exporter.Exporter) {
			for i := range bodies {
				stub := tracetest.SpanStub{
					Name: partOfBody("GET"), StartTime: time.Now(), EndTime: time.Now(), Attributes: []attribute.KeyValue{part("user")},
					SpanContext: trace.NewSpanContext(trace.SpanContextConfig{TraceID: [16]byte{1}, SpanID: [8]byte{1, byte(i)}, TraceFlags: 1}),
					Events:      []sdktrace.Event{{Name: partOfBody("paid")}},
					InstrumentationScope: instrumentation.Scope{
						Name: partOfBody("shop"), Version: partOfBody("v1"), SchemaURL: partOfBody("https://opentelemetry.io"),
						Attributes: attribute.NewSet(part("of")),
					},
				}
				must(t, e.ExportSpans(context.Background(), tracetest.SpanStubs{stub}.Snapshots()))
			}
		}},
	} {
		t.Run(test.name, func(t *testing.T) {
			rec := create(t, nil)
			e, err := exporter.New(exporter.WithRecorder(rec))
			must(t, err)
			p, err := exporter.NewSpanProcessor(exporter.WithRecorder(rec))
			must(t, err)
			before := heapMB()
			test.run(p, e)
			if got := heapMB(); got > before+50 {
				t.Errorf("the heap has %d MB after %d spans with parts of 1 MB, and had %d", got, bodies, before)
			}
		})
	}
}
