package entrace

import (
	"context"
	"os"

	"go.opentelemetry.io/otel/baggage"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"
	"go.opentelemetry.io/otel/trace/embedded"
)

// environmentParent returns a context with the span context and the baggage from the environment
// variables that OpenTelemetry's specification "Environment Variables as Context Propagation
// Carriers" defines.
func environmentParent() context.Context {
	carrier := make(propagation.MapCarrier)
	for key, name := range map[string]string{"traceparent": "TRACEPARENT", "tracestate": "TRACESTATE", "baggage": "BAGGAGE"} {
		carrier[key] = os.Getenv(name)
	}
	return propagation.NewCompositeTextMapPropagator(propagation.TraceContext{}, propagation.Baggage{}).Extract(context.Background(), carrier)
}

// belowEnvironment returns a provider that makes spans without a parent children of the span
// that the environment names. If the environment names no span, it returns tp.
func belowEnvironment(tp trace.TracerProvider) trace.TracerProvider {
	up := environmentParent()
	if !trace.SpanContextFromContext(up).IsValid() {
		return tp
	}
	return &parentProvider{tp: tp, parent: trace.SpanContextFromContext(up), baggage: baggage.FromContext(up)}
}

type parentProvider struct {
	embedded.TracerProvider

	tp      trace.TracerProvider
	parent  trace.SpanContext
	baggage baggage.Baggage
}

// Tracer implements trace.TracerProvider.
func (p *parentProvider) Tracer(name string, o ...trace.TracerOption) trace.Tracer {
	return &parentTracer{t: p.tp.Tracer(name, o...), of: p}
}

type parentTracer struct {
	embedded.Tracer

	t  trace.Tracer
	of *parentProvider
}

// Start implements trace.Tracer.
func (t *parentTracer) Start(ctx context.Context, name string, o ...trace.SpanStartOption) (context.Context, trace.Span) {
	if ctx == nil {
		ctx = context.Background()
	}
	if !trace.SpanContextFromContext(ctx).IsValid() {
		if c := trace.NewSpanStartConfig(o...); !c.NewRoot() {
			ctx = trace.ContextWithRemoteSpanContext(ctx, t.of.parent)
			if baggage.FromContext(ctx).Len() == 0 {
				ctx = baggage.ContextWithBaggage(ctx, t.of.baggage)
			}
		}
	}
	return t.t.Start(ctx, name, o...)
}
