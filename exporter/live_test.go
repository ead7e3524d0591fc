package exporter_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"go.opentelemetry.io/otel/attribute"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"github.com/entrace-go/entrace/internal/testkit/expect"
	testkit "github.com/entrace-go/entrace/internal/testkit/tracetest"
)

// TestLiveIsInFile reads the file while spans are open.
func TestLiveIsInFile(t *testing.T) {
	rec := create(t, nil)
	p := spanProcessor(t, rec)
	tp := sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(p))
	count := func() (n int) {
		must(t, rec.Flush(context.Background()))
		f := testkit.OpenFile(t, rec.StreamPath())
		return f.Len()
	}
	ctx, outer := tp.Tracer("").Start(t.Context(), "outer")
	if n := count(); n != 3 {
		t.Errorf("%d entries when the span has started, want root, resource and the span", n)
	}
	_, inner := tp.Tracer("").Start(ctx, "inner")
	inner.End()
	outer.End()
	expect.Equal(t, count(), 6, "entries when the spans have ended")
	must(t, errors.Join(tp.Shutdown(context.WithoutCancel(ctx)), p.Shutdown(t.Context())))
	_, late := tp.Tracer("").Start(t.Context(), "late")
	late.End()
	expect.Equal(t, count(), 6, "entries after Shutdown")
}

// TestLateProcessor ends spans that began before the processor was registered, and spans that are
// not sampled.
func TestLateProcessor(t *testing.T) {
	rec := create(t, nil)
	tp := sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(sdktrace.NewSimpleSpanProcessor(tracetest.NewNoopExporter())))
	_, early := tp.Tracer("").Start(t.Context(), "early")
	p := spanProcessor(t, rec)
	tp.RegisterSpanProcessor(p)
	early.SetAttributes(attribute.Int("n", 1))
	early.End()
	must(t, tp.Shutdown(context.WithoutCancel(t.Context())))
	v := finish(t, rec)
	if got := testkit.ViewTree(t, v, nil); !strings.Contains(got, "early:") || !strings.Contains(got, "n=1") || !strings.Contains(got, "duration_nano") {
		t.Errorf("the trace is\n%s", got)
	}
}
