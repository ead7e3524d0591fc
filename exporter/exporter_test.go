package exporter_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
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
	v, err := view.New(t.Context(), []*format.File{f}, nil)
	must(t, err)
	return v
}

// show prints an entry of a view, without the values that differ between runs.
func show(t testing.TB, v *view.View, id uint32) string {
	t.Helper()
	e, err := v.Entry(view.Row(id))
	must(t, err)
	return text(e)
}

func text(e *format.TraceEntry) string {
	var b strings.Builder
	m := &e.Metadata
	fmt.Fprintf(&b, "%s %q [%s]", m.Level, m.Name, m.Target)
	if e.Message.Valid {
		fmt.Fprintf(&b, " message=%q", e.Message.Value)
	}
	if m.File.Valid || m.Line.Valid || m.ModulePath.Valid {
		fmt.Fprintf(&b, " %s:%d in %s", m.File.Value, m.Line.Value, m.ModulePath.Value)
	}
	for _, a := range e.Attributes {
		fmt.Fprintf(&b, "\n  %s %s ", a.Name, a.Value.Kind())
		switch a.Value.Kind() {
		case format.KindString, format.KindBytes:
			fmt.Fprintf(&b, "%q", a.Value.Text())
		case format.KindFloat:
			fmt.Fprint(&b, a.Value.Float())
		case format.KindBool:
			fmt.Fprint(&b, a.Value.Bool())
		default:
			b.Write(a.Value.AppendDecimal(nil))
		}
	}
	return b.String()
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
	return []attribute.KeyValue{
		attribute.Bool("bool", true),
		attribute.Int64("int", math.MinInt64),
		attribute.Float64("float", 2),
		attribute.Float64("nan", math.NaN()),
		attribute.String("string", "ü\n"),
		attribute.String("not text", "\xff"),
		attribute.ByteSlice("bytes", []byte{0, 255}),
		{Key: "empty"},
		attribute.BoolSlice("bools", []bool{true, false}),
		attribute.Int64Slice("ints", []int64{1, -2}),
		attribute.Float64Slice("floats", []float64{1, 2.5, 1e300}),
		attribute.Float64Slice("infinite", []float64{1, math.Inf(-1)}),
		attribute.StringSlice("strings", []string{"a", "\""}),
		attribute.StringSlice("bad strings", []string{"a", "\xff"}),
		attribute.StringSlice("none", nil),
		attribute.Slice("slice", attribute.IntValue(1), attribute.Value{}, attribute.StringSliceValue([]string{"x"})),
		attribute.Slice("deep bytes", attribute.ByteSliceValue([]byte("hi")), attribute.BoolValue(true), attribute.Int64SliceValue([]int64{3})),
		attribute.Map("map", attribute.Int("b", 2), attribute.Float64("a", 1)),
		attribute.Map("deep", attribute.Map("m", attribute.ByteSlice("x", []byte("hi")), attribute.KeyValue{Key: "e"})),
		attribute.String("trace_id", "mine"),
		attribute.String("otel.attr.x", "mine"),
		attribute.String("entrace.x", "mine"),
		attribute.Int("code.line.number", 12),
		attribute.String("code.file.path", "a/b.go"),
		attribute.String("code.function.name", "example.com/a/b.(*T).M"),
	}
}

const everyKindText = `
  bool Bool true
  int I64 -9223372036854775808
  float Float 2
  nan Float NaN
  string String "ü\n"
  not text Bytes "\xff"
  bytes Bytes "\x00\xff"
  empty String "null"
  bools String "[true,false]"
  ints String "[1,-2]"
  floats String "[1.0,2.5,1e+300]"
  infinite String "{\"arrayValue\":{\"values\":[{\"doubleValue\":1.0},{\"doubleValue\":\"-Infinity\"}]}}"
  strings String "[\"a\",\"\\\"\"]"
  bad strings String "{\"arrayValue\":{\"values\":[{\"stringValue\":\"a\"},{\"bytesValue\":\"/w==\"}]}}"
  none String "[]"
  slice String "[1,null,[\"x\"]]"
  deep bytes String "{\"arrayValue\":{\"values\":[{\"bytesValue\":\"aGk=\"},{\"boolValue\":true},{\"arrayValue\":{\"values\":[{\"intValue\":\"3\"}]}}]}}"
  map String "{\"a\":1.0,\"b\":2}"
  deep String "{\"kvlistValue\":{\"values\":[{\"key\":\"m\",\"value\":{\"kvlistValue\":{\"values\":[{\"key\":\"e\",\"value\":{}},{\"key\":\"x\",\"value\":{\"bytesValue\":\"aGk=\"}}]}}}]}}"
  otel.attr.trace_id String "mine"
  otel.attr.otel.attr.x String "mine"
  otel.attr.entrace.x String "mine"
  code.line.number I64 12
  code.file.path String "a/b.go"
  code.function.name String "example.com/a/b.(*T).M"`

const everyKindMarks = `
  otel.json String "[\"otel.scope.attr.b\",\"empty\",\"bools\",\"ints\",\"floats\",\"strings\",\"none\",\"slice\",\"map\"]"
  otel.anyvalue String "[\"infinite\",\"bad strings\",\"deep bytes\",\"deep\"]"`

// TestLossless exports a span in which every accessor returns a value other than
// the default.
func TestLossless(t *testing.T) {
	stub := tracetest.SpanStub{
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
	}
	rec := create(t, nil)
	must(t, newExporter(t, rec).ExportSpans(t.Context(), []sdktrace.ReadOnlySpan{nil, stub.Snapshot()}))
	v := finish(t, rec)
	want := []string{
		`INFO "resource" [] message="shop"
  r String "[1]"
  service.name String "shop"
  otel.resource.schema_url String "https://schema/r"
  otel.json String "[\"r\"]"`,
		`ERROR "every ` + "\ufffd" + ` thing" [scope] a/b.go:12 in example.com/a/b
  trace_id String "00000000000000000000000000000001"
  parent_span_id String "0000000000000001"
  span_id String "0000000000000002"
  time_unix_nano U64 1000000000007
  duration_nano U64 5
  otel.kind String "server"
  otel.status_code String "ERROR"
  otel.status_description String "why"
  trace_flags U64 771
  otel.trace_state String "vendor=x"
  otel.scope.version String "v1"
  otel.scope.schema_url String "https://schema/s"
  otel.scope.attr.b String "[true]"
  otel.dropped_attributes_count U64 1
  otel.dropped_events_count U64 2
  otel.dropped_links_count U64 3` + everyKindText + everyKindMarks,
		`INFO "link" [scope]
  otel.link.trace_id String "00000000000000000000000000000001"
  otel.link.span_id String "0000000000000009"
  otel.link.flags U64 768
  otel.link.trace_state String "link=z"
  otel.dropped_attributes_count U64 5
  s String "[\"a\"]"
  otel.json String "[\"s\"]"`,
		`INFO "link" [scope]
  otel.link.trace_id String "00000000000000000000000000000001"
  otel.link.span_id String "0000000000000008"`,
		`ERROR "exception" [scope]
  otel.event Bool true
  time_unix_nano U64 1000000000008
  otel.dropped_attributes_count U64 4
  n I64 1`,
		`INFO "" [scope]
  otel.event Bool true
  time_unix_nano I64 -999999999993`,
	}
	for i, want := range want {
		e, err := v.Files()[0].Entry(uint32(i + 1))
		must(t, err)
		expect.Equal(t, text(e), want, "entry %d", i+1)
	}
	for id, want := range map[uint32]view.Role{1: view.RoleResource, 2: view.RoleSpan, 3: view.RoleLink, 4: view.RoleLink, 5: view.RoleEvent, 6: view.RoleEvent} {
		if got := v.Role(view.Row(id)); got != want {
			t.Errorf("entry %d is a %v, want a %v", id, got, want)
		}
	}
}

// TestPlainSpan: fields of a span that have their defaults are not stored.
func TestPlainSpan(t *testing.T) {
	rec := create(t, nil)
	stub := tracetest.SpanStub{
		Name: "plain", SpanContext: spanContext(1, trace.FlagsSampled, false, ""), SpanKind: trace.SpanKindInternal,
		StartTime: epoch, EndTime: epoch.Add(-3), Status: sdktrace.Status{Code: codes.Ok},
	}
	unended := stub
	unended.SpanContext, unended.EndTime, unended.SpanKind = spanContext(2, trace.FlagsSampled, false, ""), time.Time{}, trace.SpanKindUnspecified
	must(t, newExporter(t, rec).ExportSpans(t.Context(), tracetest.SpanStubs{stub, unended}.Snapshots()))
	v := finish(t, rec)
	e, err := v.Files()[0].Entry(2)
	must(t, err)
	want := `INFO "plain" []
  trace_id String "00000000000000000000000000000001"
  span_id String "0000000000000001"
  time_unix_nano U64 1000000000007
  duration_nano U64 0
  otel.clock_skew_nano I64 -3
  otel.status_code String "OK"`
	expect.Equal(t, text(e), want, "the span")
	e, err = v.Files()[0].Entry(3)
	must(t, err)
	want = `INFO "plain" []
  trace_id String "00000000000000000000000000000001"
  span_id String "0000000000000002"
  time_unix_nano U64 1000000000007
  otel.kind String "unspecified"
  otel.status_code String "OK"`
	if got := text(e); got != want {
		t.Errorf("the span that did not end is\n%s\nwant\n%s", got, want)
	}
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

// TestManyLinks: if a span has too many links, the SDK drops the oldest ones, but the processor has
// recorded them already.
func TestManyLinks(t *testing.T) {
	rec := create(t, nil)
	p := spanProcessor(t, rec)
	limits := sdktrace.NewSpanLimits()
	limits.LinkCountLimit = 3
	tp := sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(p), sdktrace.WithRawSpanLimits(limits))
	link := func(n byte) trace.Link { return trace.Link{SpanContext: spanContext(n, trace.FlagsSampled, false, "")} }
	_, s := tp.Tracer("").Start(t.Context(), "s", trace.WithLinks(link(1), link(2)))
	s.AddLink(link(3))
	s.AddLink(link(4))
	s.End()
	v := finish(t, rec)
	var ids []string
	must(t, v.Walk(0, func(id view.Row, _ int, _ bool) error {
		if v.Role(id) == view.RoleLink {
			e, err := v.Entry(id)
			must(t, err)
			span, _ := e.Attribute(mapping.AttrLinkSpanID)
			ids = append(ids, span.Text()[15:])
		}
		return nil
	}))
	expect.Equal(t, strings.Join(ids, ""), "1234", "links there")
}

// TestSDKTrees records random traces with the SDK, once live and once in batches. Both files must show the
// same trees.
func TestSDKTrees(t *testing.T) {
	for seed := range uint64(10) {
		views := both(t, func(t *testing.T, tp *sdktrace.TracerProvider, rec *recorder.Recorder) *view.View {
			rnd := rand.New(rand.NewPCG(seed, 1))
			type open struct {
				ctx context.Context
				s   trace.Span
			}
			spans := []open{{ctx: t.Context()}}
			n := 0
			at := func() trace.SpanEventOption { n++; return trace.WithTimestamp(epoch.Add(time.Duration(n))) }
			for i := range 100 {
				parent := spans[rnd.IntN(len(spans))]
				ctx, s := tp.Tracer("").Start(parent.ctx, fmt.Sprint(i), at())
				spans = append(spans, open{ctx, s})
				if rnd.IntN(2) == 0 {
					spans[1+rnd.IntN(len(spans)-1)].s.End(at())
				}
			}
			for _, o := range spans[1:] {
				o.s.End(at())
			}
			must(t, tp.Shutdown(context.WithoutCancel(t.Context())))
			return finish(t, rec)
		})
		if live, batch := outlineOf(t, views["live"]), outlineOf(t, views["batch"]); live != batch {
			t.Errorf("seed %d: live:\n%.2000s\nbatch:\n%.2000s", seed, live, batch)
		}
	}
}

// TestTwoResources records spans of two providers with different resources to one file. Each span has the
// service of its own provider, and a view shows it below its parent span, even if the parent has the other
// resource.
func TestTwoResources(t *testing.T) {
	views := map[string]*view.View{}
	for _, way := range []string{"live", "batch"} {
		rec := create(t, nil)
		provider := func(service string) *sdktrace.TracerProvider {
			option := sdktrace.WithSyncer(newExporter(t, rec))
			if way == "live" {
				option = sdktrace.WithSpanProcessor(spanProcessor(t, rec))
			}
			return sdktrace.NewTracerProvider(option, sdktrace.WithResource(resource.NewSchemaless(attribute.String("service.name", service))))
		}
		orders, stock := provider("orders").Tracer(""), provider("stock").Tracer("")
		ctx, order := orders.Start(t.Context(), "order")
		ctx, reserve := stock.Start(ctx, "reserve")
		ctx, lock := stock.Start(ctx, "lock")
		_, mail := orders.Start(ctx, "mail")
		for _, s := range []trace.Span{mail, lock, reserve, order} {
			s.End()
		}
		views[way] = finish(t, rec)
	}
	for way, v := range views {
		got := map[string]string{}
		for r := range v.Rows() {
			if v.Role(r) == view.RoleSpan {
				got[v.Name(r)] = v.Service(r) + " below " + v.Name(v.Parent(r))
			}
		}
		want := map[string]string{"order": "orders below resource", "reserve": "stock below order", "lock": "stock below reserve", "mail": "orders below lock"}
		if !maps.Equal(got, want) {
			t.Errorf("%s: %v, want %v", way, got, want)
		}
	}
}

func TestExporterShutdown(t *testing.T) {
	path := filepath.Join(t.TempDir(), "own.et")
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
	expect.Is(t, expect.Err(rec.Append(&format.TraceEntry{Metadata: format.Metadata{Name: "x"}})), nil, "after both have shut down")
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
	last := uint32(v.Len() - 2)
	if got := show(t, v, last); v.Role(view.Row(last)) != view.RoleSpan || !strings.Contains(got, "!TRUNCATED Bool true") || !strings.Contains(got, "attribute 0 I64 0") {
		t.Errorf("the span that was cut is a %v:\n%s", v.Role(view.Row(last)), got)
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
	entry := &format.TraceEntry{Metadata: format.Metadata{Name: format.NameResource}}
	for i, r := range []*recorder.Recorder{other, recorder.Discard()} {
		res, err := r.Resource(entry)
		must(t, err)
		b := rec.Batch()
		b.Span(&recorder.Span{Resource: res, Ref: format.SpanRef{TraceID: [16]byte{1}, SpanID: [8]byte{byte(i + 1)}}})
		b.Entry(entry)
		must(t, b.Write())
	}
	if v := finish(t, rec); v.Len() != 4 || v.Parent(1) != 0 || v.Parent(2) != 0 {
		t.Errorf("the trace is\n%s", outlineOf(t, v))
	}
}
