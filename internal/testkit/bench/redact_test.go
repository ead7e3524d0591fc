package bench

import (
	"context"
	"fmt"
	"log/slog"
	"path/filepath"
	"testing"

	sdktrace "go.opentelemetry.io/otel/sdk/trace"

	"github.com/entrace-go/entrace/exporter"
	"github.com/entrace-go/entrace/recorder"
	"github.com/entrace-go/entrace/redact"
	"github.com/entrace-go/entrace/slogadapter"
)

// policies are the policies that BenchmarkRedact compares.
var policies = []struct {
	name   string
	policy *redact.Policy
}{{"default", redact.Default()}, {"off", redact.Off}}

func createRedacting(b *testing.B, dir string, p *redact.Policy) recording {
	b.Helper()
	rec, err := recorder.Create(filepath.Join(dir, "app.iet"), &recorder.Options{Redact: p})
	must(b, err)
	return recording{rec}
}

// BenchmarkRedact measures the cost of the default policy for a log call with ten attributes, four of which are
// texts, and for a live span with ten attributes.
func BenchmarkRedact(b *testing.B) {
	for _, goroutines := range []int{1, 2, 8} {
		for _, p := range policies {
			b.Run(fmt.Sprintf("slog/goroutines=%d/%s", goroutines, p.name), func(b *testing.B) {
				h := handler{p.name, func(b *testing.B, dir string) (slog.Handler, output) {
					rec := createRedacting(b, dir, p.policy)
					return slogadapter.New(rec.Recorder, nil), rec
				}}
				logRecords(b, ten, h, goroutines)
			})
		}
	}
	for _, p := range policies {
		b.Run("span/"+p.name, func(b *testing.B) {
			b.ReportAllocs()
			b.StopTimer()
			dir, attrs, ctx := b.TempDir(), spanAttrs(), context.Background()
			for left := b.N; left > 0; {
				n := min(left, maxSpans)
				left -= n
				rec := createRedacting(b, dir, p.policy)
				live, err := exporter.NewSpanProcessor(exporter.WithRecorder(rec.Recorder))
				must(b, err)
				tp := sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(live))
				tracer := tp.Tracer("bench")
				b.StartTimer()
				for range n {
					_, span := tracer.Start(ctx, "GET /cart")
					span.SetAttributes(attrs...)
					span.End()
				}
				must(b, rec.Flush())
				b.StopTimer()
				must(b, tp.Shutdown(ctx))
				must(b, rec.Discard())
			}
		})
	}
}
