package bench

import (
	"context"
	"errors"
	"testing"

	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"

	"github.com/entrace-go/entrace/control"
	"github.com/entrace-go/entrace/control/provider"
	"github.com/entrace-go/entrace/exporter"
)

// BenchmarkFlightSpan begins and ends a child span of 3 attributes, of which a
// processor that does nothing gets all, or a flight recorder.
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
	b.Run("nothing", func(b *testing.B) {
		run(b, sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(idleProcessor{})))
	})
	b.Run(roleFlight, func(b *testing.B) {
		ctl, err := control.New(&control.Options{Config: flightConfig(b.TempDir()), Providers: provider.All()})
		must(b, err)
		p, err := exporter.Setup(context.Background(), exporter.WithControl(ctl), exporter.WithoutGlobals())
		must(b, err)
		run(b, p.TracerProvider())
		b.StopTimer()
		must(b, errors.Join(p.Shutdown(context.Background()), ctl.Shutdown(context.Background())))
	})
}
