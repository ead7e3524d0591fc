package chrome_test

import (
	"math"

	"github.com/entrace-go/entrace/format"
	"github.com/entrace-go/entrace/internal/core/mapping"
	"github.com/entrace-go/entrace/internal/core/wire"
	"github.com/entrace-go/entrace/internal/otel"
	"github.com/entrace-go/entrace/internal/testkit/converttest"
	"github.com/entrace-go/entrace/internal/testkit/tracetest"
)

const base = converttest.Base

func traced(e *format.TraceEntry, trace byte) *format.TraceEntry {
	id := [16]byte{15: trace}
	e.Add(format.AttrTraceID, format.StringValue(string(wire.AppendHex(nil, id[:]))))
	return e
}

func below(parent uint32, e *format.TraceEntry) *format.TraceEntry {
	e.Parent = parent
	return e
}

func text(name, value string) otel.Attribute {
	return otel.Attribute{Name: name, Value: format.StringValue(value)}
}

func value(name string, v format.Value) otel.Attribute {
	return otel.Attribute{Name: name, Value: v}
}

// span returns a span. from and to are nanoseconds after base. change, if not nil, changes it.
func span(id byte, name string, from, to int64, change func(s *otel.Span)) *format.TraceEntry {
	s := &otel.Span{
		Name: name, SpanID: [8]byte{7: id}, Start: base + from, Duration: to - from, Ended: true, Kind: otel.KindInternal,
		Flags: mapping.DefaultTraceFlags, Scope: otel.Scope{Name: "shop/cart"},
	}
	if change != nil {
		change(s)
	}
	return tracetest.Of(s, otel.Where{Trace: true, Parent: s.Parent == [8]byte{}})
}

// sample returns the entries of a trace with every kind of entry and value.
func sample() []*format.TraceEntry {
	list := otel.NewAttribute("list", &otel.Any{Kind: otel.List, List: []otel.Any{
		{Kind: otel.Int, Int: 1}, {Kind: otel.Int, Int: math.MaxInt64}, {}, {Kind: otel.List}, {Kind: otel.Map, Map: []otel.KeyValue{
			{Key: "a.b", Value: otel.Any{Kind: otel.Float, Float: 2}}, {Key: "t", Value: otel.Any{Kind: otel.Bool, Bool: true}},
		}},
	}})
	anyValue := otel.NewAttribute("any", &otel.Any{Kind: otel.Map, Map: []otel.KeyValue{
		{Key: "k", Value: otel.Any{Kind: otel.Bytes, Text: "\x00\xff"}}, {Key: "k", Value: otel.Any{Kind: otel.Float, Float: math.NaN()}},
	}})
	resource := func(name string, more ...otel.Attribute) *format.TraceEntry {
		return (&otel.Resource{Attributes: append(more, text("service.name", name))}).Entry()
	}
	twice := span(13, "twice", 960, 970, nil)
	for range 2 {
		twice.Add("x", format.I64Value(1))
	}
	return []*format.TraceEntry{
		format.Root(), // 0
		resource("shop", text("host.name", "h\x1b[31m1"), value("process.pid", format.I64Value(42))), // 1
		resource("bank"), // 2
		below(1, traced(span(1, "GET /cart", 0, 1000, func(s *otel.Span) { // 3
			s.Kind, s.Status, s.Description = otel.KindServer, otel.StatusError, "boom"
			s.Attributes = []otel.Attribute{
				text("s", "a\"b\\\n\x01\x7f\u0085\u202e</script>ü"), value("bool", format.BoolValue(true)), value("f", format.FloatValue(2)),
				value("nan", format.FloatValue(math.NaN())), value("-inf", format.FloatValue(math.Inf(-1))),
				value("max", format.U64Value(math.MaxUint64)), value("min", format.I64Value(math.MinInt64)), value("2^53", format.I64Value(1<<53)),
				value("2^53+1", format.I64Value(1<<53+1)), value("u128", format.U128Value(1, 0)), value("bytes", format.BytesValue([]byte{0, 255})),
				list, anyValue, text("kind", "user's"), text("span_id", "user's"), text("", "no name"),
			}
		}), 0xaa)),
		below(3, span(2, "SELECT", 100, 600, func(s *otel.Span) { s.Kind = otel.KindClient })),                // 4
		below(3, span(3, "overlaps SELECT", 300, 800, nil)),                                                   // 5
		below(4, span(4, "no time at all", 600, 600, nil)),                                                    // 6
		below(2, traced(span(5, "pay", 400, 700, func(s *otel.Span) { s.Parent = [8]byte{7: 3} }), 0xaa)),     // 7
		below(3, span(6, "open", 850, 850, func(s *otel.Span) { s.Ended = false })),                           // 8
		below(3, span(7, "skewed", 900, 890, nil)),                                                            // 9
		below(1, traced(span(8, "job", 1000, 2000, func(s *otel.Span) { s.Kind = otel.KindConsumer }), 0xbb)), // 10
		below(10, tracetest.Of(&otel.Link{TraceID: [16]byte{15: 0xaa}, SpanID: [8]byte{7: 1}, Flags: mapping.DefaultTraceFlags, Attributes: []otel.Attribute{list}}, "")),
		below(10, tracetest.Of(&otel.Link{TraceID: [16]byte{1}, SpanID: [8]byte{1}, Flags: 1, TraceState: "a=b", Dropped: 2}, "")),
		below(3, tracetest.Of(&otel.Event{Name: "exception", Time: base + 1000, HasTime: true, Attributes: []otel.Attribute{text("exception.message", "boom")}}, "")),
		below(4, tracetest.Of(&otel.Event{Name: "without a time"}, "")),
		below(4, tracetest.Of(&otel.Event{Name: "too late", Time: base + 1500, HasTime: true}, "")),
		below(4, tracetest.Of(&otel.Log{
			Body: otel.Any{Kind: otel.String, Text: "rows read"}, Time: base + 555, HasTime: true, Observed: base + 555, Severity: 9, SeverityText: "INFO",
			Attributes: []otel.Attribute{value("rows", format.I64Value(3)), text("code.file.path", "/src/db.go"), value("code.line.number", format.I64Value(12))},
		}, otel.Where{Trace: true, Parent: true})),
		below(1, tracetest.Of(&otel.Log{Time: base + 5, HasTime: true, Observed: base + 5, Severity: 13, SeverityText: "WARN"}, otel.Where{})),
		{Metadata: format.Metadata{Name: "below nothing with a time", Level: format.LevelInfo}},
		{Metadata: format.Metadata{Name: "foreign", Target: "rust", Level: format.LevelDebug}, Message: format.Some("hello"), Attributes: tracetest.Attributes(format.AttrTime, uint64(base+1999))},
		below(3, twice),
		below(3, span(14, "Profile", 980, 990, func(s *otel.Span) {
			s.Attributes = []otel.Attribute{text("data", "of no type"), text("detail", "shown")}
		})),
		{Metadata: format.Metadata{Name: mapping.NameEnd, Level: format.LevelInfo}, Attributes: tracetest.Attributes(format.AttrTime, uint64(base+3000))},
	}
}

// timeless returns the entries of a trace without times, as other ENTRACE writers make it.
func timeless() []*format.TraceEntry {
	entry := func(parent uint32, name, message string) *format.TraceEntry {
		e := &format.TraceEntry{Parent: parent, Metadata: format.Metadata{Name: name, Target: "app", Level: format.LevelInfo}}
		if message != "" {
			e.Message = format.Some(message)
		}
		return e
	}
	return []*format.TraceEntry{
		format.Root(), entry(0, "main", ""), entry(1, "load", ""), entry(2, "event app.rs:1", "loaded"), entry(1, "run", "with a message"), entry(0, "after", ""),
	}
}
