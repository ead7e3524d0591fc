package heph

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"path/filepath"
	"strings"
	"testing"
	"time"

	otelattribute "go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"

	"github.com/entrace-go/entrace/convert/internal/converttest"
	"github.com/entrace-go/entrace/exporter"
	"github.com/entrace-go/entrace/format"
	"github.com/entrace-go/entrace/internal/otel"
	"github.com/entrace-go/entrace/internal/testkit/expect"
	"github.com/entrace-go/entrace/internal/testkit/tracetest"
	"github.com/entrace-go/entrace/slogadapter"
	"github.com/entrace-go/entrace/view"
)

// there encodes v and decodes the packets. It checks that encoding the result gives the same packets.
func there(t testing.TB, v *view.View, version format.Version) (*view.View, []byte) {
	t.Helper()
	packets := converter.Bytes(t, v)
	back, err := decoded(t, packets, version)
	converttest.Must(t, err)
	if again := converter.Bytes(t, back); !bytes.Equal(again, packets) {
		t.Errorf("encoded again it is\n%q, was\n%q", again, packets)
	}
	return back, packets
}

func attributes() []otel.Attribute {
	list := []otel.Any{
		{Kind: otel.String, Text: "text"},
		{Kind: otel.String, Text: ""},
		{Kind: otel.Bool, Bool: true},
		{Kind: otel.Int, Int: math.MinInt64},
		{Kind: otel.Float, Float: math.Inf(-1)},
		{Kind: otel.Bytes, Text: "\x00\xff"},
		{Kind: otel.Empty},
		{Kind: otel.List},
		{Kind: otel.List, List: []otel.Any{{Kind: otel.Int, Int: 1}, {Kind: otel.Int, Int: -2}}},
		{Kind: otel.List, List: []otel.Any{{Kind: otel.Float, Float: 1}, {Kind: otel.Float, Float: 1e300}}},
		{Kind: otel.List, List: []otel.Any{{Kind: otel.Float, Float: math.NaN()}}},
		{Kind: otel.List, List: []otel.Any{{Kind: otel.String, Text: "a\"b"}, {Kind: otel.String, Text: "é"}}},
		{Kind: otel.List, List: []otel.Any{{Kind: otel.Bool, Bool: true}, {Kind: otel.Bool}}},
		{Kind: otel.List, List: []otel.Any{{Kind: otel.Bool, Bool: true}, {Kind: otel.Int, Int: 3}}},
		{Kind: otel.Map, Map: []otel.KeyValue{{Key: "k", Value: otel.Any{Kind: otel.List}}}},
	}
	var attrs []otel.Attribute
	for i := range list {
		attrs = append(attrs, otel.NewAttribute(fmt.Sprintf("a%02d.%s", i, list[i].Kind), &list[i]))
	}
	for _, name := range []string{"trace_id", "otel.types", "entrace.id", "heph.packet", `quo"te`, "entrace.attr.x", "otel.types.1"} {
		attrs = append(attrs, otel.Attribute{Name: name, Value: format.U64Value(math.MaxUint64)})
	}
	attrs = append(attrs, otel.Attribute{Name: "entrace.open", Value: format.BoolValue(true)},
		otel.Attribute{Name: "u128", Value: format.U128Value(math.MaxUint64, 1)},
		otel.Attribute{Name: "i128", Value: format.I128Value(math.MinInt64, 7)},
		otel.Attribute{Name: "i128.small", Value: format.I128Value(-1, math.MaxUint64)},
		otel.Attribute{Name: "nan", Value: format.FloatValue(math.NaN())},
		otel.Attribute{Name: "twice", Value: format.U64Value(1)},
		otel.Attribute{Name: "twice", Value: format.BoolValue(true)},
		otel.Attribute{Name: "twice", Value: format.StringValue("x")})
	return attrs
}

// everything returns a trace with all fields of spans, log records, links and resources.
func everything(t testing.TB, version format.Version) *view.View {
	t.Helper()
	x := tracetest.New(t, version, format.IET, format.Root())
	add := func(parent uint32, e *format.TraceEntry) uint32 { return x.AddBelow(e, parent) }
	scope := otel.Scope{Name: "lib", Version: "v1", SchemaURL: "u", Attributes: attributes(), Dropped: 4}
	r := otel.Resource{Attributes: append(attributes(), otel.Attribute{Name: "service.name", Value: format.StringValue("shop")}), SchemaURL: "s", Dropped: 9}
	res := add(0, r.Entry())
	other := otel.Resource{Attributes: []otel.Attribute{{Name: "service.name", Value: format.StringValue("bank")}}}
	bank := add(0, other.Entry())
	trace := [16]byte{1, 2, 3}
	s := otel.Span{
		Name: "GET /", TraceID: trace, SpanID: [8]byte{1}, Parent: [8]byte{99}, TraceState: "a=b", Flags: 0x301, Kind: otel.KindServer,
		Start: 1000, Duration: 500, Ended: true, Status: otel.StatusError, Description: "no", Scope: scope, Attributes: attributes(),
		DroppedAttributes: 1, DroppedEvents: 2, DroppedLinks: 3,
	}
	top := add(res, s.Entry(otel.Where{}))
	link := otel.Link{TraceID: [16]byte{7}, SpanID: [8]byte{8}, TraceState: "c=d", Flags: 3, Attributes: attributes(), Dropped: 5}
	add(top, link.Entry("lib"))
	add(top, link.Entry("lib"))
	for i := range 3 {
		ev := otel.Event{Name: "exception", Time: 1100, HasTime: i < 2, Attributes: attributes()[i:], Dropped: 6}
		add(top, ev.Entry("lib"))
	}
	for i := range 8 { // these spans overlap in part
		kid := otel.Span{
			Name: "kid", TraceID: trace, SpanID: [8]byte{2, byte(i)}, Parent: [8]byte{1}, Flags: 257, Kind: otel.SpanKind(i % 6),
			Start: 1010 + 20*int64(i), Duration: 50, Ended: i != 3, Status: otel.Status(i % 3), MadeIDs: i == 4,
		}
		id := add(top, kid.Entry(otel.Where{Trace: true, Parent: true}))
		l := otel.Log{
			Message: "hello", Body: otel.Any{Kind: otel.String, Text: "hello"}, Time: 1012, HasTime: true, Observed: 5,
			Severity: 11, SeverityText: "odd", EventName: "n", TraceID: trace, SpanID: kid.SpanID, Flags: 1, Scope: scope, Attributes: attributes(), Dropped: 2,
		}
		if i%2 == 0 {
			add(id, l.Entry(otel.Where{Trace: true, Parent: true}))
		} else {
			l.Body = otel.Any{Kind: otel.List, List: []otel.Any{{Kind: otel.Int, Int: 3}}}
			l.Message = l.Body.Display()
			add(bank, l.Entry(otel.Where{}))
		}
	}
	for i, span := range []otel.Span{
		{Name: "", Start: -5, Duration: 10, Ended: true},                                           // before 1970
		{Name: "event", Start: 10, Duration: -3, Ended: true, Flags: 257, Kind: otel.KindInternal}, // the clock ran backwards
		{Name: "max", Start: math.MaxInt64, Ended: true, Flags: 257, Kind: otel.KindInternal},
		{Name: "none", Start: 2000, Ended: true, Flags: 257, Kind: otel.KindInternal},
		{Name: "late parent", Start: 1500, Duration: 20, Ended: true, Flags: 257, Kind: otel.KindClient, Parent: [8]byte{5, 6}},
		{Name: "late", Start: 1400, Duration: 200, Ended: true, Flags: 257, Kind: otel.KindClient},
	} {
		span.TraceID, span.SpanID = [16]byte{9}, [8]byte{5, byte(i) + 1}
		add(bank, span.Entry(otel.Where{}))
	}
	return x.View()
}

// TestEncode compares the packets of spans, a log record and an event with the expected packets.
func TestEncode(t *testing.T) {
	x := tracetest.New(t, format.V2, format.IET, format.Root())
	r := otel.Resource{Attributes: []otel.Attribute{{Name: "service.name", Value: format.StringValue("shop")}}}
	trace := [16]byte{1}
	s := otel.Span{Name: "GET /", TraceID: trace, SpanID: [8]byte{1}, Parent: [8]byte{9}, Kind: otel.KindServer, Start: 1000, Duration: 500, Ended: true}
	for _, a := range attributes() {
		if strings.HasPrefix(a.Name, "a") || strings.Contains(a.Name, "128") {
			s.Attributes = append(s.Attributes, a)
		}
	}
	top := x.AddBelow(s.Entry(otel.Where{}), x.AddBelow(r.Entry(), 0))
	ev := otel.Event{Name: "exception", Time: 1100, HasTime: true}
	x.AddBelow(ev.Entry(""), top)
	kid := otel.Span{Name: "open", TraceID: trace, SpanID: [8]byte{2}, Start: 1200, Status: otel.StatusError, Flags: 257, Kind: otel.KindInternal}
	below := x.AddBelow(kid.Entry(otel.Where{Trace: true, Parent: true}), top)
	l := otel.Log{Message: "hello", Body: otel.Any{Kind: otel.String, Text: "hello"}, Time: 1250, HasTime: true, Severity: 13, TraceID: trace, SpanID: kid.SpanID}
	x.AddBelow(l.Entry(otel.Where{Trace: true, Parent: true}), below)
	var got strings.Builder
	for rd := (&reader{b: converter.Bytes(t, x.View())}); rd.more(); {
		p, err := rd.next()
		converttest.Must(t, err)
		if nano, ok := p.Option.Epoch(); ok {
			fmt.Fprintf(&got, "epoch %d\n", nano)
			continue
		}
		e := &p.Event
		fmt.Fprintf(&got, "%d/%d #%d %d-%d %s\n", e.StreamID, e.SubstreamID, e.Counter, e.Start, e.End, e.Description)
		for _, a := range e.Attributes {
			fmt.Fprintf(&got, "\t%s %v %d %q\n", a.Name, a.Value.typ, a.Value.num, a.Value.text)
		}
	}
	converttest.Golden(t, "encoded.txt", []byte(got.String()))
}

// TestEncodedAgain encodes everything that spans, log records, links and resources may have, and decodes it.
// Encoding the result must give the same packets.
func TestEncodedAgain(t *testing.T) {
	for _, from := range []format.Version{format.V1, format.V2} {
		for _, to := range []format.Version{format.V1, format.V2} {
			v := everything(t, from)
			back, _ := there(t, v, to)
			sameParents(t, v, back)
		}
	}
}

// TestRecorded encodes a live recording, in which a span has two entries. Each span must become one packet below
// its parent.
func TestRecorded(t *testing.T) {
	name := filepath.Join(t.TempDir(), "x.et")
	rec := tracetest.CreateAt(t, name, nil)
	live, err := exporter.NewSpanProcessor(exporter.WithRecorder(rec))
	converttest.Must(t, err)
	tp := sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(live))
	tracer := tp.Tracer("shop", trace.WithInstrumentationVersion("v2"))
	log := slog.New(slogadapter.New(rec, nil))
	ctx, span := tracer.Start(t.Context(), "GET /cart", trace.WithSpanKind(trace.SpanKindServer), trace.WithAttributes(otelattribute.IntSlice("sizes", []int{1, 2})))
	for i := range 5 {
		ctx, kid := tracer.Start(ctx, "kid", trace.WithLinks(trace.LinkFromContext(ctx, otelattribute.Bool("b", true))))
		log.InfoContext(ctx, "working", "i", i, "list", []string{"a"})
		kid.AddEvent("tick", trace.WithAttributes(otelattribute.Float64Slice("f", []float64{1, 2})))
		kid.RecordError(errors.New("failed"))
		kid.SetStatus(codes.Error, "failed")
		if i != 3 {
			kid.End(trace.WithTimestamp(time.Now().Add(time.Duration(i) * time.Millisecond)))
		}
	}
	span.SetName("GET /basket")
	span.End()
	log.Info("done")
	converttest.Must(t, tp.Shutdown(context.Background()))
	converttest.Must(t, rec.Close(context.Background()))
	f := tracetest.OpenFile(t, name)
	v := tracetest.View(t, f)
	back, packets := there(t, v, format.V2)
	sameParents(t, v, back)
	if !bytes.Contains(packets, []byte("\x00\x05sizes\x82\x00\x02")) {
		t.Error("a slice of ints is no array of i64")
	}
}

// TestOtherEntries encodes entries that are neither spans nor log records, with and without times, and texts that
// are too long.
func TestOtherEntries(t *testing.T) {
	long := strings.Repeat("é", 70000)
	names := strings.Repeat("x", 65600)
	root := format.Root()
	root.Message, root.Attributes = format.Some("hi"), tracetest.Attributes("entrace.id", true)
	entries := []*format.TraceEntry{
		root,
		{Message: format.Some(""), Metadata: format.Metadata{Name: long, Target: long, Level: format.LevelWarn, ModulePath: format.Some(""), File: format.Some("f"), Line: format.Some(uint32(0))}},
		{Parent: 1, Message: format.Some(long), Attributes: tracetest.Attributes(
			"b", bytes.Repeat([]byte{1}, 100000), "b.1", "x", "long", long, "long", long,
			names, uint64(1), names, long, names+"y", true,
		)},
		{Parent: 1, Attributes: tracetest.Attributes("time_unix_nano", "noon", "duration_nano", float64(1))},
		{Parent: 3, Attributes: tracetest.Attributes("duration_nano", uint64(1))},
		tracetest.Entry("heph.option", "heph.packet", uint64(1), "otel.types", `{"x"`),
		{Parent: 2},
	}
	timed := []*format.TraceEntry{
		{Parent: 4, Attributes: tracetest.Attributes("time_unix_nano", uint64(math.MaxUint64), "duration_nano", uint64(1))},
		{Parent: 4, Attributes: tracetest.Attributes("time_unix_nano", uint64(7), "time_unix_nano", uint64(7))},
		{Parent: 4, Attributes: tracetest.Attributes("time_unix_nano", uint64(7), "duration_nano", uint64(math.MaxUint64-7))},
	}
	for _, list := range [][]*format.TraceEntry{entries, append(entries, timed...), {root}, {format.Root()}, {format.Root(), {}}, {}} {
		v := converttest.View(t, list...)
		if back, packets := there(t, v, format.V2); len(packets) > 0 && back.Len() != v.Len()+1 { // one row more, for the epoch
			t.Errorf("%d rows, want %d and the epoch", back.Len(), v.Len())
		}
	}
}

// TestPacketOrder checks the counters, the order and the lanes of packets.
func TestPacketOrder(t *testing.T) {
	packets := converter.Bytes(t, everything(t, format.V2))
	type lane struct {
		stream    uint32
		substream uint64
	}
	next := make(map[uint32]uint32)
	spans := make(map[lane][][2]uint64)
	r := &reader{b: packets}
	last, first := uint64(0), uint64(math.MaxUint64)
	for n := 0; r.more(); n++ {
		p, err := r.next()
		converttest.Must(t, err)
		if p.Metadata != (n == 0) {
			t.Fatalf("packet %d: metadata %v, want the epoch first, and only there", n, p.Metadata)
		}
		if p.Metadata {
			continue
		}
		e := &p.Event
		expect.Equal(t, e.Counter, next[e.StreamID], "packet %d has the counter", n)
		next[e.StreamID]++
		if e.End < last {
			t.Errorf("packet %d ends at %d, the one before at %d", n, e.End, last)
		}
		last, first = e.End, min(first, e.Start)
		at := lane{e.StreamID, e.SubstreamID}
		for _, s := range spans[at] {
			if e.Start < s[0] && s[0] < e.End && e.End < s[1] || s[0] < e.Start && e.Start < s[1] && s[1] < e.End {
				t.Errorf("packet %d, %d..%d, overlaps %v in part on one lane", n, e.Start, e.End, s)
			}
		}
		spans[at] = append(spans[at], [2]uint64{e.Start, e.End})
	}
	if first != 0 || len(next) != 2 {
		t.Errorf("the first start is %d, want 0; %d streams, want 2", first, len(next))
	}
}
