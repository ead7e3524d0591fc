package bench

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"testing"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace"
	"go.opentelemetry.io/otel/exporters/stdout/stdouttrace"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"

	"github.com/entrace-go/entrace/exporter"
	"github.com/entrace-go/entrace/format"
	"github.com/entrace-go/entrace/slogadapter"
)

func must(b testing.TB, err error) {
	b.Helper()
	if err != nil {
		b.Fatal(err)
	}
}

func createFile(b testing.TB) *os.File {
	b.Helper()
	f, err := os.Create(filepath.Join(b.TempDir(), "peer"))
	must(b, err)
	b.Cleanup(func() { must(b, f.Close()) })
	return f
}

func recorder(b testing.TB) *format.Recorder {
	b.Helper()
	rec, err := format.Create(filepath.Join(b.TempDir(), "app.iet"), nil)
	must(b, err)
	b.Cleanup(func() { must(b, rec.Close(context.Background())) })
	return rec
}

// The attributes are those of a request, of the usual kinds.
func logAttrs(n int) []slog.Attr {
	return []slog.Attr{
		slog.Int("status", 200),
		slog.String("path", "/api/v1/tenants/4711/carts/0815/items?expand=all"),
		slog.String("method", "GET"),
		slog.Int64("bytes", 123456),
		slog.String("user", "ada"),
		slog.Bool("cached", true),
		slog.Float64("ratio", 0.75),
		slog.Duration("elapsed", 1234567),
		slog.String("upstream", "prices.example.com:8443"),
		slog.Uint64("sequence", 987654321),
	}[:n]
}

// BenchmarkHandle logs a record to a file, source position on, one write a record
// for all.
func BenchmarkHandle(b *testing.B) {
	handlers := []struct {
		name string
		new  func(b *testing.B) slog.Handler
	}{
		{"entrace", func(b *testing.B) slog.Handler { return slogadapter.New(recorder(b), nil) }},
		{"slog.JSONHandler", func(b *testing.B) slog.Handler {
			return slog.NewJSONHandler(createFile(b), &slog.HandlerOptions{AddSource: true})
		}},
	}
	for _, n := range []int{2, 10} {
		for _, h := range handlers {
			b.Run(fmt.Sprintf("attrs=%d/%s", n, h.name), func(b *testing.B) {
				log, attrs, ctx := slog.New(h.new(b)), logAttrs(n), context.Background()
				b.ReportAllocs()
				for b.Loop() {
					log.LogAttrs(ctx, slog.LevelInfo, "request handled by the upstream", attrs...)
				}
			})
		}
	}
	for _, h := range handlers {
		b.Run("with=10/attrs=2/"+h.name, func(b *testing.B) {
			log, attrs, ctx := slog.New(h.new(b).WithAttrs(logAttrs(10))), logAttrs(2), context.Background()
			b.ReportAllocs()
			for b.Loop() {
				log.LogAttrs(ctx, slog.LevelInfo, "request handled by the upstream", attrs...)
			}
		})
	}
}

func spanAttrs() []attribute.KeyValue {
	return []attribute.KeyValue{
		attribute.Int("http.response.status_code", 200),
		attribute.String("url.path", "/api/v1/tenants/4711/carts/0815/items"),
		attribute.String("http.request.method", "GET"),
		attribute.Int64("http.response.body.size", 123456),
		attribute.String("user.id", "ada"),
		attribute.Bool("cached", true),
		attribute.Float64("ratio", 0.75),
		attribute.Int64("elapsed", 1234567),
		attribute.String("server.address", "prices.example.com"),
		attribute.Int("server.port", 8443),
	}
}

// spans returns n spans that have ended, in traces of eight, children first.
func spans(n int) []sdktrace.ReadOnlySpan {
	stubs := make(tracetest.SpanStubs, n)
	res := resource.NewSchemaless(attribute.String("service.name", "shop"))
	for i := range stubs {
		id := func(k int) trace.SpanContext {
			return trace.NewSpanContext(trace.SpanContextConfig{
				TraceID: trace.TraceID{0: 1, 14: byte(i >> 11), 15: byte(i >> 3)}, SpanID: trace.SpanID{0: 2, 6: byte(k >> 8), 7: byte(k)}, TraceFlags: 1,
			})
		}
		start := time.Unix(1_700_000_000, int64(i)*1000)
		stubs[i] = tracetest.SpanStub{
			Name: "GET /carts/{id}", SpanContext: id(i), SpanKind: trace.SpanKindServer,
			StartTime: start, EndTime: start.Add(123456), Attributes: spanAttrs(), Resource: res,
		}
		if root := i | 7; i != root {
			stubs[i].Parent = id(root)
		}
		stubs[i].InstrumentationScope.Name = "example.com/shop"
	}
	return stubs.Snapshots()
}

// otlpFile writes each batch as OTLP protobuf, as the OTLP exporter would send it.
type otlpFile struct{ w io.Writer }

func (otlpFile) Start(context.Context) error { return nil }
func (otlpFile) Stop(context.Context) error  { return nil }
func (o otlpFile) UploadTraces(_ context.Context, spans []*tracepb.ResourceSpans) error {
	buf, err := proto.Marshal(&tracepb.TracesData{ResourceSpans: spans})
	if err != nil {
		return err
	}
	_, err = o.w.Write(buf)
	return err
}

// BenchmarkExportSpans exports batches of 512 spans to a file; a span an
// operation.
func BenchmarkExportSpans(b *testing.B) {
	const batch = 512
	ctx := context.Background()
	for _, x := range []struct {
		name string
		new  func(b *testing.B) (sdktrace.SpanExporter, func() int64)
	}{
		{"entrace", func(b *testing.B) (sdktrace.SpanExporter, func() int64) {
			rec := recorder(b)
			e, err := exporter.New(exporter.WithRecorder(rec))
			must(b, err)
			return e, func() int64 { return rec.Stats().Bytes }
		}},
		{"stdouttrace", func(b *testing.B) (sdktrace.SpanExporter, func() int64) {
			f := createFile(b)
			e, err := stdouttrace.New(stdouttrace.WithWriter(f))
			must(b, err)
			return e, fileSize(b, f)
		}},
		{"otlp-protobuf", func(b *testing.B) (sdktrace.SpanExporter, func() int64) {
			f := createFile(b)
			e, err := otlptrace.New(ctx, otlpFile{f})
			must(b, err)
			return e, fileSize(b, f)
		}},
	} {
		b.Run("attrs=10/"+x.name, func(b *testing.B) {
			e, size := x.new(b)
			all := spans(batch)
			b.ReportAllocs()
			n := 0
			for b.Loop() {
				if n%batch == 0 {
					must(b, e.ExportSpans(ctx, all))
				}
				n++
			}
			exported := (n + batch - 1) / batch * batch
			b.ReportMetric(float64(size())/float64(exported), "B/span")
		})
	}
}

func fileSize(b *testing.B, f *os.File) func() int64 {
	return func() int64 {
		fi, err := f.Stat()
		must(b, err)
		return fi.Size()
	}
}

// nothing is a span processor that does nothing.
type nothing struct{}

func (nothing) OnStart(context.Context, sdktrace.ReadWriteSpan) {}
func (nothing) OnEnd(sdktrace.ReadOnlySpan)                     {}
func (nothing) Shutdown(context.Context) error                  { return nil }
func (nothing) ForceFlush(context.Context) error                { return nil }

// BenchmarkLiveSpan starts and ends a span through the SDK.
func BenchmarkLiveSpan(b *testing.B) {
	for _, x := range []struct {
		name string
		new  func(b *testing.B) sdktrace.SpanProcessor
	}{
		{"entrace", func(b *testing.B) sdktrace.SpanProcessor {
			p, err := exporter.NewSpanProcessor(exporter.WithRecorder(recorder(b)))
			must(b, err)
			return p
		}},
		{"nothing", func(*testing.B) sdktrace.SpanProcessor { return nothing{} }},
		{"stdouttrace", func(b *testing.B) sdktrace.SpanProcessor {
			e, err := stdouttrace.New(stdouttrace.WithWriter(createFile(b)))
			must(b, err)
			return sdktrace.NewSimpleSpanProcessor(e)
		}},
	} {
		b.Run("attrs=10/"+x.name, func(b *testing.B) {
			tp := sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(x.new(b)))
			tracer, attrs, ctx := tp.Tracer("example.com/shop"), spanAttrs(), context.Background()
			b.ReportAllocs()
			for b.Loop() {
				_, s := tracer.Start(ctx, "GET /carts/{id}", trace.WithSpanKind(trace.SpanKindServer))
				s.SetAttributes(attrs...)
				s.End()
			}
		})
	}
}
