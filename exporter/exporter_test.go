package exporter_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/sdk/instrumentation"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"
	"go.uber.org/goleak"

	"github.com/entrace-go/entrace/exporter"
	"github.com/entrace-go/entrace/format"
	"github.com/entrace-go/entrace/internal/core/mapping"
	"github.com/entrace-go/entrace/internal/testkit/expect"
	"github.com/entrace-go/entrace/internal/testkit/hosttest"
	testkit "github.com/entrace-go/entrace/internal/testkit/tracetest"
	"github.com/entrace-go/entrace/internal/text/notice"
	"github.com/entrace-go/entrace/recorder"
	"github.com/entrace-go/entrace/view"
)

var (
	must    = expect.Must
	flushed = testkit.Flushed
)

func create(t testing.TB, o *recorder.Options) *recorder.Recorder {
	t.Helper()
	return testkit.Create(t, "app.et", o)
}

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// finish closes the recorder, checks the file, and returns its view.
func finish(t testing.TB, rec *recorder.Recorder) *view.View {
	t.Helper()
	must(t, rec.Close(context.Background()))
	must(t, expect.Err(recorder.Verify(rec.Path(), func(problem error) { t.Error(problem) })))
	f := testkit.OpenFile(t, rec.Path())
	v := testkit.View(t, f)
	return v
}

func newExporter(t testing.TB, rec *recorder.Recorder) *exporter.Exporter {
	t.Helper()
	e, err := exporter.New(exporter.WithRecorder(rec))
	must(t, err)
	return e
}

func spanProcessor(t testing.TB, rec *recorder.Recorder) *exporter.SpanProcessor {
	t.Helper()
	p, err := exporter.NewSpanProcessor(exporter.WithRecorder(rec))
	must(t, err)
	return p
}

// TestTwoProcessorsRecordASpanOnce: a provider has two processors with one recorder, in the order of their creation
// and in the opposite order. A second provider has only one of the processors.
func TestTwoProcessorsRecordASpanOnce(t *testing.T) {
	for _, order := range [][2]int{{0, 1}, {1, 0}} {
		rec := create(t, nil)
		p := [2]*exporter.SpanProcessor{spanProcessor(t, rec), spanProcessor(t, rec)}
		both := sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(p[order[0]]), sdktrace.WithSpanProcessor(p[order[1]]))
		one := sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(p[1]))
		ctx, outer := both.Tracer("t").Start(t.Context(), "outer")
		_, inner := both.Tracer("t").Start(ctx, "inner")
		_, alone := one.Tracer("t").Start(ctx, "alone")
		for _, s := range []trace.Span{alone, inner, outer} {
			s.AddEvent("event")
			s.End()
		}
		must(t, p[0].Shutdown(t.Context()))
		_, last := both.Tracer("t").Start(t.Context(), "last")
		last.End()
		must(t, p[1].Shutdown(t.Context()))
		must(t, rec.Close(t.Context()))
		v := testkit.View(t, testkit.Open(t, rec.Path()))
		var got []string
		for r := range v.Rows() {
			if f := v.Flags(r); f.Role() == view.RoleSpan || f.Role() == view.RoleEvent {
				got = append(got, fmt.Sprint(v.Name(r), f.Open()))
			}
		}
		want := []string{"outerfalse", "innerfalse", "alonefalse", "eventfalse", "eventfalse", "eventfalse", "lastfalse"}
		expect.Slice(t, got, want, "in the order %v", order)
	}
}

func spanContext(span byte, flags trace.TraceFlags, remote bool, state string) trace.SpanContext {
	ts, err := trace.ParseTraceState(state)
	if err != nil {
		panic(err)
	}
	return trace.NewSpanContext(trace.SpanContextConfig{
		TraceID: trace.TraceID{15: 1}, SpanID: trace.SpanID{7: span}, TraceFlags: flags, Remote: remote, TraceState: ts,
	})
}

var epoch = time.Unix(1000, 7)

// everyKind returns an attribute of every kind, and slices and maps that JSON cannot represent.
func everyKind() []attribute.KeyValue {
	return attributesOf(testkit.Commands(`bool=true int=$min float=2.0 nan=$NaN string="ü\n" "not text"=$not bytes=$bytes empty=$empty bools=[true false] ints=[1 -2] floats=[1.0 2.5 $big] infinite=[1.0 $Inf] strings=["a" "\""] "bad strings"=["a" $not] none=[] slice=[1 $empty ["x"]] "deep bytes"=[$hi true [3]] map{b=2 a=1.0} deep{m{x=$hi e=$empty}} trace_id="mine" otel.attr.x="mine" entrace.x="mine" code.line.number=12 code.file.path="a/b.go" code.function.name="example.com/a/b.(*T).M"`, caseValues)[0].Attributes)
}

// exported has spans, by a description of their special property.
var exported = map[string]tracetest.SpanStubs{
	"every accessor returns another value than the default": {{
		Name:        "every \xff thing",
		SpanContext: spanContext(2, 0x03, false, "vendor=x"),
		Parent:      spanContext(1, trace.FlagsSampled, true, "parent=y"),
		SpanKind:    trace.SpanKindServer,
		StartTime:   epoch,
		EndTime:     epoch.Add(5),
		Attributes:  everyKind(),
		Events: []sdktrace.Event{
			{Name: "exception", Time: epoch.Add(1), Attributes: []attribute.KeyValue{attribute.Int("n", 1)}, DroppedAttributeCount: 4},
			{Name: "", Time: epoch.Add(-2e12)},
		},
		Links: []sdktrace.Link{
			{SpanContext: spanContext(9, 0, true, "link=z"), Attributes: []attribute.KeyValue{attribute.StringSlice("s", []string{"a"})}, DroppedAttributeCount: 5},
			{SpanContext: spanContext(8, trace.FlagsSampled, false, "")},
		},
		Status:            sdktrace.Status{Code: codes.Error, Description: "why"},
		DroppedAttributes: 1, DroppedEvents: 2, DroppedLinks: 3, ChildSpanCount: 6,
		Resource: resource.NewWithAttributes("https://schema/r", attribute.String("service.name", "shop"), attribute.Int64Slice("r", []int64{1})),
		InstrumentationScope: instrumentation.Scope{
			Name: "scope", Version: "v1", SchemaURL: "https://schema/s", Attributes: attribute.NewSet(attribute.BoolSlice("b", []bool{true})),
		},
	}},
	"fields that have their defaults are not stored": {{
		Name: "plain", SpanContext: spanContext(1, trace.FlagsSampled, false, ""), SpanKind: trace.SpanKindInternal,
		StartTime: epoch, EndTime: epoch.Add(-3), Status: sdktrace.Status{Code: codes.Ok},
	}},
	"a span that has not ended": {{Name: "open", SpanContext: spanContext(2, trace.FlagsSampled, false, ""), StartTime: epoch}},
}

// TestExportedSpans compares how spans are stored with exported.txt.
func TestExportedSpans(t *testing.T) {
	testkit.Golden(t, "testdata/exported.txt", *update, func(name string) string {
		rec := create(t, nil)
		must(t, newExporter(t, rec).ExportSpans(t.Context(), append(exported[name].Snapshots(), nil)))
		return testkit.Tree(t, finish(t, rec).Files()[0])
	})
}

type recordOnly struct{}

func (recordOnly) ShouldSample(sdktrace.SamplingParameters) sdktrace.SamplingResult {
	return sdktrace.SamplingResult{Decision: sdktrace.RecordOnly}
}
func (recordOnly) Description() string { return "recordOnly" }

func TestUnsampled(t *testing.T) {
	for _, want := range []int{0, 1} {
		rec := create(t, nil)
		o := []exporter.Option{exporter.WithRecorder(rec)}
		if want == 1 {
			o = append(o, exporter.WithUnsampled())
		}
		p, err := exporter.NewSpanProcessor(o...)
		must(t, err)
		tp := sdktrace.NewTracerProvider(sdktrace.WithSampler(recordOnly{}), sdktrace.WithSpanProcessor(p))
		_, s := tp.Tracer("").Start(t.Context(), "s")
		s.End()
		if got := flushed(t, rec).Stats().Spans.Written; got != uint64(want) {
			t.Errorf("%d spans that are not sampled were recorded, want %d", got, want)
		}
	}
}

// TestSDKTrees records random traces in each way. A view must show the same trees.
func TestSDKTrees(t *testing.T) {
	for seed := range uint64(10) {
		rnd := rand.New(rand.NewPCG(seed, 1))
		lines := []string{"start s0"}
		for i := range 100 {
			lines = append(lines, fmt.Sprintf("in s%d | start s%d", rnd.IntN(i+1), i+1))
			if rnd.IntN(2) == 0 {
				lines = append(lines, fmt.Sprintf("end s%d", rnd.IntN(i+2)))
			}
		}
		for i := range 101 {
			lines = append(lines, fmt.Sprintf("end s%d", i))
		}
		want := runCase(t, "live", lines)
		for _, way := range []string{"batch", "forgotten"} {
			expect.Equal(t, runCase(t, way, lines), want, "seed %d, %s", seed, way)
		}
	}
}

func TestExporterShutdown(t *testing.T) {
	path := hosttest.Path(t, "own.et")
	e, err := exporter.New(exporter.WithPath(path))
	must(t, err)
	stubs := tracetest.SpanStubs{{Name: "s", SpanContext: spanContext(1, 1, false, "")}}
	must(t, e.ExportSpans(t.Context(), stubs.Snapshots()))
	must(t, e.Shutdown(t.Context()))
	if err := e.ExportSpans(t.Context(), stubs.Snapshots()); err == nil || !strings.Contains(err.Error(), "shut down") {
		t.Errorf("ExportSpans after Shutdown: %v, want an error", err)
	}
	expect.Is(t, e.Shutdown(t.Context()), nil, "the second Shutdown")
	f := testkit.OpenFile(t, path)
	if f.Format() != format.ET || f.Len() != 4 {
		t.Errorf("%v of %d entries, want an ET of 4", f.Format(), f.Len())
	}
}

// TestBorrowedRecorder: Shutdown does not close a recorder that was passed with WithRecorder. ExportSpans reports that such
// a recorder is closed.
func TestBorrowedRecorder(t *testing.T) {
	rec := create(t, nil)
	p := spanProcessor(t, rec)
	must(t, errors.Join(newExporter(t, rec).Shutdown(t.Context()), p.Shutdown(t.Context())))
	expect.Is(t, expect.Err(rec.Append(testkit.Entry("x"))), nil, "after both have shut down")
	e := newExporter(t, rec)
	must(t, rec.Close(t.Context()))
	stubs := tracetest.SpanStubs{{Name: "s", SpanContext: spanContext(1, 1, false, "")}}
	expect.Is(t, e.ExportSpans(t.Context(), stubs.Snapshots()), recorder.ErrClosed, "after the recorder was closed, ExportSpans")
}

func TestShutdownDeadContext(t *testing.T) {
	dir := t.TempDir()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for i, open := range []func(...exporter.Option) (interface{ Shutdown(context.Context) error }, error){
		func(o ...exporter.Option) (interface{ Shutdown(context.Context) error }, error) {
			return exporter.New(o...)
		},
		func(o ...exporter.Option) (interface{ Shutdown(context.Context) error }, error) {
			return exporter.NewSpanProcessor(o...)
		},
	} {
		path := filepath.Join(dir, fmt.Sprintf("%d.et", i))
		e, err := open(exporter.WithPath(path))
		must(t, err)
		expect.Is(t, e.Shutdown(ctx), context.Canceled, "Shutdown")
		r, err := recorder.Inspect(path)
		must(t, err)
		if r.Format != format.IET || r.Reason != mapping.CutClean || !r.Ended {
			t.Errorf("what is left is %+v, want a whole IET", r)
		}
		must(t, e.Shutdown(t.Context()))
		if r, err := recorder.Inspect(path); err != nil || r.Format != format.ET {
			t.Errorf("after another Shutdown there is %+v, %v, want an ET", r, err)
		}
	}
}

// TestSharedExporter registers one exporter with two processors, which call it concurrently.
func TestSharedExporter(t *testing.T) {
	rec := create(t, nil)
	e := newExporter(t, rec)
	var wg sync.WaitGroup
	for range 2 {
		tp := sdktrace.NewTracerProvider(sdktrace.WithSyncer(e))
		for range 4 {
			wg.Go(func() {
				for range 50 {
					ctx, s := tp.Tracer("").Start(context.Background(), "s")
					_, c := tp.Tracer("").Start(ctx, "c")
					c.End()
					s.End()
				}
			})
		}
	}
	wg.Wait()
	if st := flushed(t, rec).Stats().Spans; st.Written != 800 || st.Waiting != 0 {
		t.Errorf("the account is %+v, want 800 spans", st)
	}
	finish(t, rec)
}

func TestExportSpansJoinsErrors(t *testing.T) {
	rec := create(t, &recorder.Options{MaxEntrySize: 1}) // raised to the minimum, 2 KiB
	var many []attribute.KeyValue
	for i := range 200 {
		many = append(many, attribute.Int(fmt.Sprint("attribute ", i), i))
	}
	err := newExporter(t, rec).ExportSpans(t.Context(), tracetest.SpanStubs{
		{Name: "bad", SpanContext: spanContext(1, 1, false, ""), InstrumentationScope: instrumentation.Scope{Name: "s", Attributes: attribute.NewSet(many...)}},
		{Name: "good", SpanContext: spanContext(2, 1, false, "")},
		{Name: "cut", SpanContext: spanContext(3, 1, false, ""), Attributes: many, StartTime: epoch},
	}.Snapshots())
	must(t, err)
	if st := flushed(t, rec).Stats().Spans; st.Written != 2 || st.Dropped.TooLarge != 1 || st.Offered != 3 {
		t.Errorf("the account is %+v", st)
	}
	v := finish(t, rec)
	last := view.Row(v.Len() - 2)
	e, err := v.Entry(last)
	must(t, err)
	if got := testkit.Line(e); v.Role(last) != view.RoleSpan || !strings.Contains(got, "!TRUNCATED=bool true") || !strings.Contains(got, "attribute 0=0") {
		t.Errorf("the span that was cut is a %v: %s", v.Role(last), got)
	}
}

// TestProcessorReportsOnce: after OnStart or OnEnd has reported an error, further errors are not reported
// until a call succeeds.
func TestProcessorReportsOnce(t *testing.T) {
	var mu sync.Mutex
	reports := 0
	notice.SetErrorHandler(func(error) { mu.Lock(); reports++; mu.Unlock() })
	rec := create(t, nil)
	p := spanProcessor(t, rec)
	must(t, rec.Close(t.Context()))
	tp := sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(p))
	for range 10 {
		_, s := tp.Tracer("").Start(t.Context(), "s")
		s.End()
	}
	expect.Equal(t, reports, 1, "reports")
}

// TestExportAllocations: exporting 100 spans in one batch allocates at most 20 times.
func TestExportAllocations(t *testing.T) {
	rec := create(t, nil)
	e := newExporter(t, rec)
	var stubs tracetest.SpanStubs
	for i := range 100 {
		stubs = append(stubs, tracetest.SpanStub{
			Name: "s", SpanContext: spanContext(byte(i+1), 1, false, ""), StartTime: epoch, EndTime: epoch,
			Attributes: []attribute.KeyValue{attribute.Int("a", 1), attribute.String("b", "x"), attribute.Bool("c", true)},
		})
	}
	spans := stubs.Snapshots()
	ctx := t.Context()
	limit := 20.0
	if raceEnabled {
		limit = 100 // under the race detector, pools drop some buffers
	}
	if n := hosttest.Allocations(20, func() { must(t, e.ExportSpans(ctx, spans)) }); n > limit {
		t.Errorf("100 spans allocate %v times, want at most %v", n, limit)
	}
}

// TestRandomExports exports a random forest of many spans in random order and
// batches from several goroutines, with parents that are missing or remote.
func TestRandomExports(t *testing.T) {
	const n = 10000
	rnd := rand.New(rand.NewPCG(3, 4))
	id := func(i int) trace.SpanID {
		return trace.SpanID{0: 1, 4: byte(i >> 24), 5: byte(i >> 16), 6: byte(i >> 8), 7: byte(i)}
	}
	sc := func(i int, remote bool) trace.SpanContext {
		return trace.NewSpanContext(trace.SpanContextConfig{TraceID: trace.TraceID{1}, SpanID: id(i), TraceFlags: 1, Remote: remote})
	}
	parents := make([]int, n) // index of the parent; -1: a child of the resource
	stubs := make(tracetest.SpanStubs, n)
	for i := range stubs {
		stubs[i] = tracetest.SpanStub{Name: fmt.Sprint(i), SpanContext: sc(i, false), StartTime: epoch.Add(time.Duration(i)), EndTime: epoch.Add(time.Duration(i + 1))}
		parents[i] = -1
		switch p := rnd.IntN(100); {
		case i == 0 || p < 2:
		case p < 4:
			stubs[i].Parent = sc(n+i, false) // a parent that is never exported
		case p < 6:
			stubs[i].Parent = sc(2*n+i, true)
		default:
			parents[i] = rnd.IntN(i)
			stubs[i].Parent = sc(parents[i], false)
		}
	}
	spans := stubs.Snapshots()
	rnd.Shuffle(n, func(i, j int) { spans[i], spans[j] = spans[j], spans[i] })
	rec := create(t, nil)
	e := newExporter(t, rec)
	var wg sync.WaitGroup
	for len(spans) > 0 {
		k := 1 + rnd.IntN(min(len(spans), 512))
		batch := spans[:k]
		spans = spans[k:]
		wg.Go(func() {
			expect.OK(t, e.ExportSpans(context.Background(), batch))
		})
	}
	wg.Wait()
	v := finish(t, rec)
	ids, at := make([]uint32, n), 0
	for id := range v.Rows() {
		if v.Role(id) == view.RoleSpan {
			e, err := v.Entry(id)
			must(t, err)
			var i int
			_, err = fmt.Sscan(e.Metadata.Name, &i)
			must(t, err)
			ids[i] = uint32(id)
			at++
		}
	}
	expect.MustEqual(t, at, n, "spans came back")
	for i, p := range parents {
		want := uint32(1) // the resource
		if p >= 0 {
			want = ids[p]
		}
		if got := v.Parent(view.Row(ids[i])); got != view.Row(want) {
			t.Errorf("span %d is below entry %d, want %d", i, got, want)
		}
	}
}

// badSpan is a span whose Events panics.
type badSpan struct{ sdktrace.ReadOnlySpan }

func (badSpan) Events() []sdktrace.Event { panic("bad events") }

// TestPanicInSpan: if reading a span panics, only the part of the span that could not be read is lost.
func TestPanicInSpan(t *testing.T) {
	rec := create(t, nil)
	stub := func(n byte) sdktrace.ReadOnlySpan {
		return tracetest.SpanStub{Name: "s", SpanContext: spanContext(n, 1, false, ""), StartTime: epoch, EndTime: epoch}.Snapshot()
	}
	err := newExporter(t, rec).ExportSpans(t.Context(), []sdktrace.ReadOnlySpan{stub(1), badSpan{stub(2)}, stub(3)})
	if err == nil || !strings.Contains(err.Error(), "bad events") {
		t.Errorf("ExportSpans: %v, want the panic", err)
	}
	if st := flushed(t, rec).Stats().Spans; st.Written != 3 {
		t.Errorf("the account is %+v, want 3 spans", st)
	}
	finish(t, rec)
}

// TestForeignResource passes the resource of one recorder to another recorder.
func TestForeignResource(t *testing.T) {
	rec, other := create(t, nil), create(t, &recorder.Options{Version: format.V2})
	entry := testkit.Entry(format.NameResource)
	for i, r := range []*recorder.Recorder{other, recorder.Discard()} {
		res, err := r.Resource(entry)
		must(t, err)
		b := rec.Batch()
		b.Span(&recorder.Span{Resource: res, Ref: format.SpanRef{TraceID: [16]byte{1}, SpanID: [8]byte{byte(i + 1)}}})
		b.Entry(entry)
		must(t, b.Write())
	}
	if v := finish(t, rec); v.Len() != 4 || v.Parent(1) != 0 || v.Parent(2) != 0 {
		t.Errorf("the trace is\n%s", testkit.ViewTree(t, v, nil))
	}
}
