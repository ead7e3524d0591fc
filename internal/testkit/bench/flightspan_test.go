package bench

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"go.opentelemetry.io/otel/attribute"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"

	"github.com/entrace-go/entrace"
	"github.com/entrace-go/entrace/control"
	"github.com/entrace-go/entrace/control/provider"
)

// idleProvider returns a tracer provider that samples all spans. Its processor does nothing.
func idleProvider() trace.TracerProvider {
	return sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(idleProcessor{}))
}

// flightProvider returns a tracer provider with a flight recorder whose ring is already full.
func flightProvider(b *testing.B) (tp trace.TracerProvider, end func()) {
	ctl, err := control.New(&control.Options{Config: flightConfig(b.TempDir()), Providers: provider.All()})
	must(b, err)
	p, err := entrace.Setup(context.Background(), entrace.WithControl(ctl), entrace.WithoutGlobals())
	must(b, err)
	tp = p.TracerProvider()
	tracer := tp.Tracer("example.com/office")
	ctx, root := tracer.Start(context.Background(), "root")
	for ctl.Stats().Ring.Evicted == 0 {
		for range 1000 {
			_, s := tracer.Start(ctx, "work", trace.WithAttributes(spanAttrs()[:3]...))
			s.End()
		}
	}
	root.End()
	return tp, func() { must(b, errors.Join(p.Shutdown(context.Background()), ctl.Shutdown(context.Background()))) }
}

// BenchmarkFlightSpan begins and ends a child span with 3 attributes. It compares a processor that does nothing
// with a flight recorder.
func BenchmarkFlightSpan(b *testing.B) {
	run := func(b *testing.B, tp trace.TracerProvider) {
		tracer := tp.Tracer("example.com/office")
		ctx, root := tracer.Start(context.Background(), "root")
		attrs := spanAttrs()[:3]
		b.ReportAllocs()
		for b.Loop() {
			_, s := tracer.Start(ctx, "work", trace.WithAttributes(attrs...))
			s.End()
		}
		root.End()
	}
	b.Run("nothing", func(b *testing.B) { run(b, idleProvider()) })
	b.Run(roleFlight, func(b *testing.B) {
		tp, end := flightProvider(b)
		run(b, tp)
		b.StopTimer()
		end()
	})
}

// BenchmarkFlightSpanCold is like BenchmarkFlightSpan, but for a service that does other work between two spans,
// so that the recorder's code and data are not in the nearest CPU caches. It reports the first quartile of the
// time for a span.
func BenchmarkFlightSpanCold(b *testing.B) {
	const (
		before = 512 << 10 // bytes that the service touches
		within = 128 << 10
	)
	heap := make([]byte, 64<<20)
	at := 0
	work := func(n int) {
		for range n / 64 {
			at = (at + 64) % len(heap)
			heap[at]++
		}
	}
	span := func(ctx context.Context, tracer trace.Tracer) time.Duration {
		work(before)
		begin := time.Now()
		_, s := tracer.Start(ctx, "work", trace.WithAttributes(
			attribute.String("order.id", "2026-0815"), attribute.Int("order.lines", 100), attribute.String("customer", "ada")))
		took := time.Since(begin)
		work(within)
		begin = time.Now()
		s.SetAttributes(attribute.Bool("ok", true))
		s.End()
		return took + time.Since(begin)
	}
	b.Run("spans=1", func(b *testing.B) {
		flight, end := flightProvider(b)
		roles := []string{"nothing", roleFlight}
		providers := []trace.TracerProvider{idleProvider(), flight}
		var took [2][]time.Duration
		b.ResetTimer()
		for range b.N { // alternate, because the speed of the machine varies
			for i, tp := range providers {
				tracer := tp.Tracer("example.com/office")
				ctx, root := tracer.Start(context.Background(), "root")
				for range 10 {
					took[i] = append(took[i], span(ctx, tracer))
				}
				root.End()
			}
		}
		b.StopTimer()
		for i, name := range roles {
			slices.Sort(took[i])
			b.ReportMetric(float64(took[i][len(took[i])/4].Nanoseconds()), name+"-ns/span")
		}
		end()
	})
}
