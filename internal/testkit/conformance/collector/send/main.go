// Send makes spans and log records with OpenTelemetry's SDK, which is configured by environment variables. Its
// argument is the name of a file, to which it writes each span as the SDK has it, as one line of JSON per span.
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"log"
	"os"

	"go.opentelemetry.io/contrib/bridges/otelslog"
	"go.opentelemetry.io/contrib/exporters/autoexport"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	sdklog "go.opentelemetry.io/otel/sdk/log"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"
)

func main() {
	if err := send(context.Background(), os.Args[1]); err != nil {
		log.Fatal(err)
	}
}

func send(ctx context.Context, kept string) error {
	spans, err := autoexport.NewSpanExporter(ctx)
	if err != nil {
		return err
	}
	records, err := autoexport.NewLogExporter(ctx)
	if err != nil {
		return err
	}
	memory := tracetest.NewInMemoryExporter()
	provider := sdktrace.NewTracerProvider(sdktrace.WithBatcher(spans), sdktrace.WithSyncer(memory))
	logs := sdklog.NewLoggerProvider(sdklog.WithProcessor(sdklog.NewBatchProcessor(records)))
	logger := otelslog.NewLogger("conformance", otelslog.WithLoggerProvider(logs))
	tracer := provider.Tracer("conformance", trace.WithInstrumentationVersion("1.2"))
	for i := range 50 {
		in, outer := tracer.Start(ctx, "outer", trace.WithSpanKind(trace.SpanKindServer), trace.WithAttributes(
			attribute.Int("i", i), attribute.Float64("half", float64(i)/2), attribute.Bool("odd", i%2 == 1), attribute.StringSlice("list", []string{"a", "b"})))
		logger.WarnContext(in, fmt.Sprint("said ", i))
		outer.AddEvent("event", trace.WithAttributes(attribute.Int("n", i)))
		_, inner := tracer.Start(in, "inner ü", trace.WithSpanKind(trace.SpanKindClient),
			trace.WithLinks(trace.Link{SpanContext: outer.SpanContext(), Attributes: []attribute.KeyValue{attribute.String("why", "self")}}))
		if i == 7 {
			inner.SetStatus(codes.Error, "seven")
		}
		inner.End()
		outer.End()
	}
	if err := write(kept, memory.GetSpans().Snapshots()); err != nil {
		return err
	}
	if err := provider.Shutdown(ctx); err != nil {
		return err
	}
	return logs.Shutdown(ctx)
}

func write(name string, spans []sdktrace.ReadOnlySpan) error {
	f, err := os.Create(name)
	if err != nil {
		return err
	}
	defer f.Close()
	for _, s := range spans {
		attributes := make(map[string]any)
		for _, a := range s.Attributes() {
			attributes[string(a.Key)] = a.Value.AsInterface()
		}
		events := [][2]string{}
		for _, e := range s.Events() {
			events = append(events, [2]string{e.Name, fmt.Sprint(e.Time.UnixNano())})
		}
		parent := ""
		if s.Parent().SpanID().IsValid() {
			parent = s.Parent().SpanID().String()
		}
		status := 0
		if s.Status().Code == codes.Error {
			status = 2
		}
		if err := json.NewEncoder(f).Encode(map[string]any{
			"trace": s.SpanContext().TraceID().String(), "span": s.SpanContext().SpanID().String(), "parent": parent, "name": s.Name(), "kind": int(s.SpanKind()),
			"start": fmt.Sprint(s.StartTime().UnixNano()), "end": fmt.Sprint(s.EndTime().UnixNano()), "status": status,
			"attributes": attributes, "events": events, "links": len(s.Links()),
		}); err != nil {
			return err
		}
	}
	return f.Close()
}
