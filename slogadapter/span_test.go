package slogadapter_test

import (
	"context"
	"log/slog"
	"testing"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"

	"github.com/entrace-go/entrace/exporter"
	"github.com/entrace-go/entrace/format"
	"github.com/entrace-go/entrace/internal/testkit/expect"
	"github.com/entrace-go/entrace/internal/testkit/tracetest"
	"github.com/entrace-go/entrace/recorder"
	"github.com/entrace-go/entrace/slogadapter"
	"github.com/entrace-go/entrace/view"
)

// newTracer returns a tracer whose spans go to rec live.
func newTracer(t *testing.T, rec *recorder.Recorder) trace.Tracer {
	t.Helper()
	p, err := exporter.NewSpanProcessor(exporter.WithRecorder(rec))
	must(t, err)
	tp := sdktrace.NewTracerProvider(
		sdktrace.WithSpanProcessor(p),
		sdktrace.WithResource(resource.NewSchemaless(attribute.String("service.name", "test"))))
	t.Cleanup(func() {
		expect.OK(t, tp.Shutdown(context.Background()))
	})
	return tp.Tracer("test")
}

// find returns the only entry with the given message or name.
func find(t *testing.T, all []*format.TraceEntry, name string) (id uint32, e *format.TraceEntry) {
	t.Helper()
	for i := range all {
		if all[i].Message.Value == name || all[i].Metadata.Name == name {
			if e != nil {
				t.Errorf("%q comes twice", name)
			}
			id, e = uint32(i)+1, all[i]
		}
	}
	if e == nil {
		t.Fatalf("no entry %q", name)
	}
	return id, e
}

func TestLogBelowSpan(t *testing.T) {
	for _, version := range []format.Version{format.V1, format.V2} {
		rec := newRecorder(t, &recorder.Options{Version: version})
		tracer := newTracer(t, rec)
		l := slog.New(slogadapter.New(rec, nil))

		ctx, outer := tracer.Start(context.Background(), "outer")
		l.InfoContext(ctx, "in outer", "a", 1)
		inCtx, inner := tracer.Start(ctx, "inner")
		l.With("b", 1).WithGroup("g").InfoContext(inCtx, "in inner", "a", 1)
		inner.End()
		l.InfoContext(inCtx, "after inner", "a", 1)
		outer.End()

		all := entries(t, rec)
		for _, test := range []struct{ message, span, attrs string }{
			{"in outer", "outer", "a=1"},
			{"in inner", "inner", "b=1 g.a=1"},
			{"after inner", "inner", "a=1"},
		} {
			_, e := find(t, all, test.message)
			span, _ := find(t, all, test.span)
			if e.Parent != span {
				t.Errorf("version %d: the parent of %q is %d, want the span's entry %d", version, test.message, e.Parent, span)
			}
			checkList(t, e, test.attrs) // without trace_id and span_id
		}
	}
}

func TestLogWithoutSpan(t *testing.T) {
	unknown := trace.ContextWithSpanContext(context.Background(), trace.NewSpanContext(trace.SpanContextConfig{
		TraceID: trace.TraceID{1, 2, 15: 0xff}, SpanID: trace.SpanID{3, 7: 0xfe}, TraceFlags: trace.FlagsSampled,
	}))
	half := trace.ContextWithSpanContext(context.Background(), trace.NewSpanContext(trace.SpanContextConfig{
		TraceID: trace.TraceID{1},
	}))
	const ids = "trace_id=010200000000000000000000000000ff span_id=03000000000000fe "
	for _, version := range []format.Version{format.V1, format.V2} {
		rec := newRecorder(t, &recorder.Options{Version: version})
		l := slog.New(slogadapter.New(rec, nil)).WithGroup("g")
		l.InfoContext(unknown, "below the root", "a", 1, "z", 2)
		tracer := newTracer(t, rec)
		_, span := tracer.Start(context.Background(), "span")
		span.End()
		l.InfoContext(unknown, "below the resource", "a", 1, "z", 2)
		l.InfoContext(half, "half", "a", 1)
		l.Info("no span", "a", 1)

		all := entries(t, rec)
		resource, _ := find(t, all, format.NameResource)
		for _, test := range []struct {
			message string
			parent  uint32
			attrs   string
		}{
			{"below the root", 0, ids + "g.a=1 g.z=2"},
			{"below the resource", resource, ids + "g.a=1 g.z=2"},
			{"half", resource, "g.a=1"},
			{"no span", resource, "g.a=1"},
		} {
			_, e := find(t, all, test.message)
			expect.Equal(t, e.Parent, test.parent, "version %d: the parent of %q", version, test.message)
			want := test.attrs
			if version == format.V2 && e.Attributes[len(e.Attributes)-1].Name == format.AttrTraceID {
				want = "g.a=1 g.z=2 span_id=03000000000000fe trace_id=010200000000000000000000000000ff"
			}
			checkList(t, e, want)
		}
	}
}

// TestLogInView checks that a view shows a log record below its span, even if the span was written
// later.
func TestLogInView(t *testing.T) {
	rec := newRecorder(t, nil)
	l := slog.New(slogadapter.New(rec, nil))
	ref := format.SpanRef{TraceID: [16]byte{1}, SpanID: [8]byte{2}}
	ctx := trace.ContextWithSpanContext(context.Background(), trace.NewSpanContext(trace.SpanContextConfig{TraceID: ref.TraceID, SpanID: ref.SpanID}))
	l.InfoContext(ctx, "")
	// Write the record before the span. Otherwise the recorder makes it a child of the span's entry.
	err := rec.Flush(context.Background())
	must(t, err)
	err = tracetest.WriteSpan(rec, &tracetest.Span{Span: recorder.Span{Ref: ref}, Entry: *tracetest.Entry("late",
		format.AttrSpanID, "0200000000000000",
		format.AttrTime, uint64(1),
	)})
	must(t, err)
	must(t, rec.Flush(context.Background()))
	f := tracetest.OpenFile(t, rec.StreamPath())
	v := tracetest.View(t, f)
	if v.Role(1) != view.RoleLog || v.Role(2) != view.RoleSpan {
		t.Errorf("roles are %v and %v, want log and span", v.Role(1), v.Role(2))
	}
	if got := v.Parent(1); got != 2 {
		t.Errorf("the record is below %d, want its span, 2", got)
	}
}
