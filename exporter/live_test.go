package exporter_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"

	"github.com/entrace-go/entrace/exporter"
	"github.com/entrace-go/entrace/format"
	"github.com/entrace-go/entrace/internal/testkit/expect"
	"github.com/entrace-go/entrace/recorder"
	"github.com/entrace-go/entrace/view"
)

// both calls fn twice, with a provider that records live and with one that records in batches. It returns
// the view of each, under the keys live and batch.
func both(t *testing.T, fn func(t *testing.T, tp *sdktrace.TracerProvider, rec *recorder.Recorder) *view.View) map[string]*view.View {
	t.Helper()
	views := make(map[string]*view.View)
	for _, mode := range []string{"live", "batch"} {
		rec := create(t, nil)
		var o sdktrace.TracerProviderOption
		if mode == "live" {
			o = sdktrace.WithSpanProcessor(spanProcessor(t, rec))
		} else {
			o = sdktrace.WithBatcher(newExporter(t, rec))
		}
		tp := sdktrace.NewTracerProvider(o, sdktrace.WithIDGenerator(&counter{}), sdktrace.WithResource(resource.Empty()))
		views[mode] = fn(t, tp, rec)
	}
	return views
}

// A counter generates the ids 1, 2, 3 and so on.
type counter struct {
	mu sync.Mutex
	n  byte
}

func (c *counter) NewIDs(context.Context) (trace.TraceID, trace.SpanID) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.n++
	return trace.TraceID{15: c.n}, trace.SpanID{7: c.n}
}

func (c *counter) NewSpanID(context.Context, trace.TraceID) trace.SpanID {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.n++
	return trace.SpanID{7: c.n}
}

// TestLiveReadsLikeBatch: a view shows the same trace whether it was recorded live or in batches.
func TestLiveReadsLikeBatch(t *testing.T) {
	views := both(t, func(t *testing.T, tp *sdktrace.TracerProvider, rec *recorder.Recorder) *view.View {
		tr := tp.Tracer("scope", trace.WithInstrumentationVersion("v1"))
		at := func(n int) trace.SpanEventOption { return trace.WithTimestamp(epoch.Add(time.Duration(n))) }
		link := func(n byte) trace.Link { return trace.Link{SpanContext: spanContext(n, trace.FlagsSampled, false, "")} }
		ctx, outer := tr.Start(t.Context(), "outer", at(0), trace.WithLinks(link(91)), trace.WithSpanKind(trace.SpanKindServer),
			trace.WithAttributes(attribute.String("same", "1"), attribute.StringSlice("change", []string{"a"}), attribute.Int("code.line.number", 1)))
		_, inner := tr.Start(ctx, "inner", at(1))
		inner.AddEvent("event", at(2), trace.WithAttributes(attribute.Float64("f", 1)))
		inner.End(at(3))
		outer.AddLink(link(92))
		outer.SetAttributes(attribute.String("change", "b"), attribute.String("new", "c"), attribute.Int64Slice("ints", []int64{1}), attribute.Int("code.line.number", 2))
		outer.SetName("renamed")
		outer.SetStatus(codes.Error, "why")
		outer.AddEvent("late", at(4))
		outer.End(at(5))
		must(t, tp.Shutdown(context.WithoutCancel(t.Context())))
		return finish(t, rec)
	})
	live, batch := outlineOf(t, views["live"]), outlineOf(t, views["batch"])
	if live != batch {
		t.Errorf("live:\n%s\nbatch:\n%s", live, batch)
	}
	if !strings.Contains(live, `ERROR "renamed"`) || strings.Count(live, "link") < 2 || !strings.Contains(live, `change String "b"`) {
		t.Errorf("the view is\n%s", live)
	}
}

// TestDroppedLinksAreThoseThatAreMissing: if a span gets too many links, the SDK drops the oldest ones. A
// live recording has the links of the start nevertheless, so its count of dropped links does not include
// them.
func TestDroppedLinksAreThoseThatAreMissing(t *testing.T) {
	for _, x := range []struct{ most, atStart, later int }{{3, 2, 5}, {3, 5, 0}, {3, 5, 2}, {3, 0, 7}, {128, 2, 2}, {1, 1, 1}} {
		rec := create(t, nil)
		p := spanProcessor(t, rec)
		limits := sdktrace.NewSpanLimits()
		limits.LinkCountLimit = x.most
		tp := sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(p), sdktrace.WithRawSpanLimits(limits))
		var links []trace.Link
		for i := range x.atStart {
			links = append(links, trace.Link{SpanContext: spanContext(byte(i+1), trace.FlagsSampled, false, "")})
		}
		_, span := tp.Tracer("").Start(t.Context(), "span", trace.WithLinks(links...))
		for i := range x.later {
			span.AddLink(trace.Link{SpanContext: spanContext(byte(100+i), trace.FlagsSampled, false, "")})
		}
		span.End()
		must(t, tp.Shutdown(context.WithoutCancel(t.Context())))
		v := finish(t, rec)
		present, dropped := 0, uint64(0)
		for r := range view.Row(v.Len()) {
			e, err := v.Entry(r)
			must(t, err)
			if v.Role(r) == view.RoleLink {
				present++
			}
			if n, ok := e.Attribute("otel.dropped_links_count"); ok {
				dropped, _ = n.U64()
			}
		}
		if present+int(dropped) != x.atStart+x.later {
			t.Errorf("%+v: %d links are there, %d count as dropped", x, present, dropped)
		}
	}
}

// startsOnly passes only the starts of spans to its processor, and endsOnly only the ends. So the
// processor of endsOnly does not know the spans that end.
type (
	startsOnly struct{ *exporter.SpanProcessor }
	endsOnly   struct{ *exporter.SpanProcessor }
)

func (startsOnly) OnEnd(sdktrace.ReadOnlySpan)                   {}
func (endsOnly) OnStart(context.Context, sdktrace.ReadWriteSpan) {}

// TestForgottenSpanReadsLikeOthers: if the processor has forgotten a span whose start was recorded, a
// view still shows its start and its end as one span.
func TestForgottenSpanReadsLikeOthers(t *testing.T) {
	record := func(forgets bool) (string, recorder.Stats) {
		rec := create(t, nil)
		var all []sdktrace.SpanProcessor
		for range 2 {
			all = append(all, spanProcessor(t, rec))
		}
		if forgets {
			all = []sdktrace.SpanProcessor{startsOnly{all[0].(*exporter.SpanProcessor)}, endsOnly{all[1].(*exporter.SpanProcessor)}}
		} else {
			all = all[:1]
		}
		o := []sdktrace.TracerProviderOption{sdktrace.WithIDGenerator(new(counter))}
		for _, p := range all {
			o = append(o, sdktrace.WithSpanProcessor(p))
		}
		tp := sdktrace.NewTracerProvider(o...)
		at := func(n int) trace.SpanEventOption { return trace.WithTimestamp(epoch.Add(time.Duration(n))) }
		tr := tp.Tracer("scope", trace.WithInstrumentationVersion("v1"))
		ctx, outer := tr.Start(t.Context(), "outer", at(0), trace.WithSpanKind(trace.SpanKindServer), trace.WithAttributes(attribute.String("change", "a"), attribute.Int("otel.kind", 7)))
		_, inner := tr.Start(ctx, "inner", at(1))
		inner.End(at(2))
		outer.AddLink(trace.Link{SpanContext: spanContext(92, trace.FlagsSampled, false, "")})
		outer.SetAttributes(attribute.String("change", "b"), attribute.StringSlice("new", []string{"c"}))
		outer.SetName("renamed")
		outer.SetStatus(codes.Error, "why")
		outer.AddEvent("late", at(4))
		outer.End(at(5))
		must(t, rec.Flush(t.Context()))
		stats := rec.Stats()
		return outlineOf(t, finish(t, rec)), stats
	}
	want, _ := record(false)
	got, stats := record(true)
	if got != want {
		t.Errorf("forgotten:\n%s\nknown:\n%s", got, want)
	}
	// Each span was recorded twice: when it began, and as a whole when it ended.
	if c := stats.Spans; c.Offered != 4 || c.Written != 4 || c.Waiting != 0 || c.Dropped.Total() != 0 {
		t.Errorf("the account of spans is %+v", c)
	}
}

// outlineOf prints a view. It sorts the attributes, because their order has no meaning.
func outlineOf(t testing.TB, v *view.View) string {
	var b strings.Builder
	must(t, v.Walk(0, func(id view.Row, depth int, _ bool) error {
		if v.Role(id) == view.RoleRecorder {
			return nil
		}
		e, err := v.Entry(id)
		must(t, err)
		format.SortAttributes(e.Attributes)
		fmt.Fprintf(&b, "%s%s\n", strings.Repeat(" ", depth), text(e))
		return nil
	}))
	return b.String()
}

// TestLiveIsInFile reads the file while spans are open.
func TestLiveIsInFile(t *testing.T) {
	rec := create(t, nil)
	p := spanProcessor(t, rec)
	tp := sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(p))
	count := func() (n int) {
		must(t, rec.Flush(context.Background()))
		f, err := format.Open(rec.StreamPath(), nil)
		must(t, err)
		defer f.Close()
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
	if v.Len() != 4 || v.Role(2) != view.RoleSpan {
		t.Fatalf("there are %d entries:\n%s", v.Len(), outlineOf(t, v))
	}
	if got := show(t, v, 2); !strings.Contains(got, "n I64 1") || !strings.Contains(got, "duration_nano") {
		t.Errorf("the span is %s", got)
	}
}
