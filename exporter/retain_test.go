package exporter_test

import (
	"context"
	"testing"
	"time"

	testkit "github.com/entrace-go/entrace/internal/testkit/tracetest"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/sdk/instrumentation"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"

	"github.com/entrace-go/entrace/exporter"
)

// TestSpansKeepNoCallersMemory records spans whose texts are short parts of large bodies,
// and checks that the bodies can be collected.
func TestSpansKeepNoCallersMemory(t *testing.T) {
	const bodies = 100
	part := func(key string) attribute.KeyValue {
		return attribute.String(testkit.PartOfBody(key), testkit.PartOfBody("ada"))
	}
	for _, test := range []struct {
		name string
		run  func(p *exporter.SpanProcessor, e *exporter.Exporter)
	}{
		{"live", func(p *exporter.SpanProcessor, _ *exporter.Exporter) {
			tracer := sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(p)).Tracer("shop")
			for range bodies {
				_, s := tracer.Start(context.Background(), testkit.PartOfBody("GET"), trace.WithAttributes(part("user")))
				s.SetAttributes(part("item"), part("a key of more than sixteen bytes"))
				s.AddEvent(testkit.PartOfBody("paid"), trace.WithAttributes(part("sum")))
				s.SetStatus(codes.Error, testkit.PartOfBody("no"))
				s.SetName(testkit.PartOfBody("GET /"))
				s.End()
			}
		}},
		{"exported", func(_ *exporter.SpanProcessor, e *exporter.Exporter) {
			for i := range bodies {
				stub := tracetest.SpanStub{
					Name: testkit.PartOfBody("GET"), StartTime: time.Now(), EndTime: time.Now(), Attributes: []attribute.KeyValue{part("user")},
					SpanContext: trace.NewSpanContext(trace.SpanContextConfig{TraceID: [16]byte{1}, SpanID: [8]byte{1, byte(i)}, TraceFlags: 1}),
					Events:      []sdktrace.Event{{Name: testkit.PartOfBody("paid")}},
					InstrumentationScope: instrumentation.Scope{
						Name: testkit.PartOfBody("shop"), Version: testkit.PartOfBody("v1"), SchemaURL: testkit.PartOfBody("https://opentelemetry.io"),
						Attributes: attribute.NewSet(part("of")),
					},
				}
				must(t, e.ExportSpans(context.Background(), tracetest.SpanStubs{stub}.Snapshots()))
			}
		}},
	} {
		t.Run(test.name, func(t *testing.T) {
			rec := create(t, nil)
			e := newExporter(t, rec)
			p := spanProcessor(t, rec)
			before := testkit.HeapMB()
			test.run(p, e)
			if got := testkit.HeapMB(); got > before+50 {
				t.Errorf("the heap has %d MB after %d spans with parts of 1 MB, and had %d", got, bodies, before)
			}
		})
	}
}
