package bench

import (
	"context"
	"encoding/binary"
	"fmt"
	"io"
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
	"github.com/entrace-go/entrace/recorder"
)

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

const spanName = "GET /carts/{id}"

const (
	batchSpans  = 512
	poolBatches = 8
)

// maxSpans is the number of spans in a file before the next file begins. It is a multiple of the number of spans
// in a pool.
const maxSpans = 32 * poolBatches * batchSpans

// An endedSpan is an ended span with replaceable ids, so that it can be exported again.
type endedSpan struct {
	sdktrace.ReadOnlySpan

	context, parent trace.SpanContext
}

func (s *endedSpan) SpanContext() trace.SpanContext { return s.context }
func (s *endedSpan) Parent() trace.SpanContext      { return s.parent }

// A spanPool holds batches of ended spans. Each trace has eight spans. Children precede their parents.
type spanPool struct {
	spans   []endedSpan
	batches [][]sdktrace.ReadOnlySpan
	next    uint64 // the state of the generator of ids
}

func newSpanPool() *spanPool {
	stub := tracetest.SpanStub{
		Name: spanName, SpanKind: trace.SpanKindServer, Attributes: spanAttrs(),
		Resource: resource.NewSchemaless(attribute.String("service.name", "shop")),
	}
	stub.InstrumentationScope.Name = "example.com/shop"
	p := &spanPool{spans: make([]endedSpan, poolBatches*batchSpans), batches: make([][]sdktrace.ReadOnlySpan, poolBatches)}
	for i := range p.spans {
		stub.StartTime = time.Unix(1_700_000_000, int64(i)*1000)
		stub.EndTime = stub.StartTime.Add(123456)
		p.spans[i].ReadOnlySpan = stub.Snapshot()
		p.batches[i/batchSpans] = append(p.batches[i/batchSpans], &p.spans[i])
	}
	return p
}

// renew gives all spans new ids, because a span can end only once.
func (p *spanPool) renew() {
	const perTrace = 8
	for i := 0; i < len(p.spans); i += perTrace {
		var traceID trace.TraceID
		binary.LittleEndian.PutUint64(traceID[:8], p.id())
		binary.LittleEndian.PutUint64(traceID[8:], p.id())
		root := trace.SpanContext{}
		for j := perTrace - 1; j >= 0; j-- {
			var spanID trace.SpanID
			binary.LittleEndian.PutUint64(spanID[:], p.id())
			s := &p.spans[i+j]
			s.context = trace.NewSpanContext(trace.SpanContextConfig{TraceID: traceID, SpanID: spanID, TraceFlags: trace.FlagsSampled})
			s.parent = root
			if j == perTrace-1 {
				root = s.context
			}
		}
	}
}

// id returns the next pseudo-random number of splitmix64. It is never 0.
func (p *spanPool) id() uint64 {
	p.next += 0x9e3779b97f4a7c15
	x := p.next
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31 | 1
}

// otlpFile is an OTLP client that writes each batch to w as protobuf, in the form in which the OTLP exporter sends
// it.
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

// BenchmarkExportSpans exports batches of 512 spans to a file. An operation is one
// span.
func BenchmarkExportSpans(b *testing.B) {
	ctx := context.Background()
	for _, x := range []struct {
		name string
		open func(b *testing.B, dir string) (sdktrace.SpanExporter, output)
	}{
		{"entrace", func(b *testing.B, dir string) (sdktrace.SpanExporter, output) {
			rec := createRecording(b, dir, recorder.Options{Durability: recorder.DurabilityProcess})
			e, err := exporter.New(exporter.WithRecorder(rec.Recorder))
			must(b, err)
			return e, rec
		}},
		{"otlp-protobuf", func(b *testing.B, dir string) (sdktrace.SpanExporter, output) {
			f := createFile(b, dir)
			e, err := otlptrace.New(ctx, otlpFile{f})
			must(b, err)
			return e, f
		}},
		{"stdouttrace", func(b *testing.B, dir string) (sdktrace.SpanExporter, output) {
			f := createFile(b, dir)
			e, err := stdouttrace.New(stdouttrace.WithWriter(f))
			must(b, err)
			return e, f
		}},
	} {
		b.Run("attrs=10/"+x.name, func(b *testing.B) {
			b.ReportAllocs()
			b.StopTimer()
			pool, dir := newSpanPool(), b.TempDir()
			exported, sizeBytes := 0, int64(0)
			for exported < b.N {
				e, out := x.open(b, dir)
				for full := exported + maxSpans; exported < min(b.N, full); {
					pool.renew()
					batches := pool.batches[:min(poolBatches, (b.N-exported+batchSpans-1)/batchSpans)]
					b.StartTimer()
					for _, batch := range batches {
						if err := e.ExportSpans(ctx, batch); err != nil {
							b.Fatal(err)
						}
					}
					b.StopTimer()
					exported += len(batches) * batchSpans
				}
				b.StartTimer()
				err := out.Flush()
				b.StopTimer()
				must(b, err)
				size, err := out.Size()
				must(b, err)
				must(b, e.Shutdown(ctx))
				must(b, out.Discard())
				sizeBytes += size
			}
			perOp(b, exported)
			b.ReportMetric(float64(sizeBytes)/float64(exported), "B/span")
		})
	}
}

// nothing is a span processor that does nothing.
type nothing struct{}

func (nothing) OnStart(context.Context, sdktrace.ReadWriteSpan) {}
func (nothing) OnEnd(sdktrace.ReadOnlySpan)                     {}
func (nothing) Shutdown(context.Context) error                  { return nil }
func (nothing) ForceFlush(context.Context) error                { return nil }

// BenchmarkLiveSpan starts a span through the SDK, sets ten attributes and ends the span.
func BenchmarkLiveSpan(b *testing.B) {
	for _, goroutines := range []int{1, 2} {
		for _, x := range []struct {
			name string
			open func(b *testing.B, dir string) (sdktrace.SpanProcessor, output)
		}{
			{"nothing", func(*testing.B, string) (sdktrace.SpanProcessor, output) { return nothing{}, none{} }},
			{"entrace", func(b *testing.B, dir string) (sdktrace.SpanProcessor, output) {
				rec := createRecording(b, dir, recorder.Options{Durability: recorder.DurabilityProcess})
				p, err := exporter.NewSpanProcessor(exporter.WithRecorder(rec.Recorder))
				must(b, err)
				return p, rec
			}},
			{"entrace-batch", func(b *testing.B, dir string) (sdktrace.SpanProcessor, output) {
				rec := createRecording(b, dir, recorder.Options{Durability: recorder.DurabilityProcess})
				e, err := exporter.New(exporter.WithRecorder(rec.Recorder))
				must(b, err)
				// With blocking, no span is dropped.
				return sdktrace.NewBatchSpanProcessor(e, sdktrace.WithBlocking()), rec
			}},
			{"stdouttrace", func(b *testing.B, dir string) (sdktrace.SpanProcessor, output) {
				f := createFile(b, dir)
				e, err := stdouttrace.New(stdouttrace.WithWriter(f))
				must(b, err)
				return sdktrace.NewSimpleSpanProcessor(e), f
			}},
		} {
			b.Run(fmt.Sprintf("attrs=10/goroutines=%d/%s", goroutines, x.name), func(b *testing.B) {
				b.ReportAllocs()
				b.StopTimer()
				dir, attrs, ctx := b.TempDir(), spanAttrs(), context.Background()
				var sizeBytes int64
				for left := b.N; left > 0; {
					n := min(left, maxSpans)
					left -= n
					p, out := x.open(b, dir)
					tp := sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(p))
					tracer := tp.Tracer("example.com/shop")
					b.StartTimer()
					spread(n, goroutines, func(n int) {
						for range n {
							_, s := tracer.Start(ctx, spanName, trace.WithSpanKind(trace.SpanKindServer))
							s.SetAttributes(attrs...)
							s.End()
						}
					})
					ferr := tp.ForceFlush(ctx)
					err := out.Flush()
					b.StopTimer()
					must(b, ferr)
					must(b, err)
					size, err := out.Size()
					must(b, err)
					must(b, tp.Shutdown(ctx))
					must(b, out.Discard())
					sizeBytes += size
				}
				if sizeBytes > 0 {
					b.ReportMetric(float64(sizeBytes)/float64(b.N), "B/span")
				}
			})
		}
	}
}
