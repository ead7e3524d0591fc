package entrace_test

import (
	"context"
	"testing"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/baggage"
	"go.opentelemetry.io/otel/trace"

	"github.com/entrace-go/entrace"
	"github.com/entrace-go/entrace/exporter"
)

// TestEnvironmentParent: a span without a parent becomes a child of the span that the environment
// names, unless it is started with WithNewRoot.
func TestEnvironmentParent(t *testing.T) {
	const up = "00-0123456789abcdef0123456789abcdef-0123456789abcdef-01"
	for _, x := range []struct{ name, traceparent, wantTrace string }{
		{"named", up, "0123456789abcdef0123456789abcdef"}, {"unset", "", ""}, {"malformed", "00-0-0-01", ""},
	} {
		t.Run(x.name, func(t *testing.T) {
			clean(t)
			t.Setenv("TRACEPARENT", x.traceparent)
			t.Setenv("BAGGAGE", "k=v")
			p := setup(t, entrace.WithEnvironmentParent(), exporter.WithPath("app.et"))
			tracer := otel.Tracer("t")
			ctx, first := tracer.Start(t.Context(), "first")
			_, second := tracer.Start(ctx, "second")
			_, root := tracer.Start(t.Context(), "root", trace.WithNewRoot())
			for _, s := range []trace.Span{second, first, root} {
				s.End()
			}
			must(t, p.Shutdown(context.Background()))
			trace := first.SpanContext().TraceID()
			if second.SpanContext().TraceID() != trace || root.SpanContext().TraceID() == trace {
				t.Error("the second span is not of the first one's trace, or a new root is")
			}
			if got := trace.String() == "0123456789abcdef0123456789abcdef"; got != (x.wantTrace != "") {
				t.Errorf("the trace is %s, want %q", trace, x.wantTrace)
			}
			if got := baggage.FromContext(ctx).Member("k").Value(); (got == "v") != (x.wantTrace != "") {
				t.Errorf("the baggage is %q", got)
			}
		})
	}
}
