package collector_test

import (
	"testing"

	"go.opentelemetry.io/collector/pdata/plog"
	"go.opentelemetry.io/collector/pdata/ptrace"

	"github.com/entrace-go/entrace/internal/otel"
	"github.com/entrace-go/entrace/internal/otel/codec"
	"github.com/entrace-go/entrace/internal/testkit/expect"
)

var must = expect.Must

// A seen is a Visitor that stores the arguments of its calls: the offsets of records, the heads,
// and the ids of the last record.
type seen struct {
	spans, logs     []int64
	scopes, holders []codec.Head
	trace           [16]byte
	span, parent    [8]byte
}

func (s *seen) Span(off int64, trace *[16]byte, span, parent *[8]byte) {
	s.spans = append(s.spans, off)
	s.trace, s.span, s.parent = *trace, *span, *parent
}

func (s *seen) Log(off int64, trace *[16]byte, span *[8]byte) {
	s.logs = append(s.logs, off)
	s.trace, s.span = *trace, *span
}

func (s *seen) EndScope(h codec.Head) { s.scopes = append(s.scopes, h) }

func (s *seen) EndResource(h codec.Head) { s.holders = append(s.holders, h) }

func everyAttribute() (attrs otel.Attributes) {
	for name, v := range map[string]otel.Any{
		"empty": {}, "text": {Kind: otel.String, Text: "a\"\n\u00e9"}, "bool": {Kind: otel.Bool, Bool: true}, "int": {Kind: otel.Int, Int: -7},
		"float": {Kind: otel.Float, Float: 0.5}, "bytes": {Kind: otel.Bytes, Text: "\x00\xff"},
		"list": {Kind: otel.List, List: []otel.Any{{Kind: otel.Int, Int: 1}, {}, {Kind: otel.Map, Map: []otel.KeyValue{{Key: "k", Value: otel.Any{Kind: otel.Bytes, Text: "x"}}}}}},
		"map":  {Kind: otel.Map, Map: []otel.KeyValue{{Key: "k", Value: otel.Any{Kind: otel.Bool, Bool: true}}, {Key: "k"}}},
	} {
		attrs = append(attrs, otel.NewAttribute(name, &v))
	}
	return append(attrs, attrs[0])
}

// TestCodecAgreesWithPdata: package codec encodes a message as JSON and as protobuf. The
// Collector's pdata and package codec must decode the same values from it. Every field of the
// records has a value, so that all fields are checked.
func TestCodecAgreesWithPdata(t *testing.T) {
	attrs := everyAttribute()
	span := otel.Span{
		Name: "name", TraceID: [16]byte{15: 1}, SpanID: [8]byte{7: 2}, Parent: [8]byte{3}, TraceState: "a=b", Flags: 257, Kind: otel.KindConsumer,
		Start: 5, Duration: 6, Ended: true, Status: otel.StatusError, Description: "why", Attributes: attrs,
		DroppedAttributes: 1, DroppedEvents: 2, DroppedLinks: 1 << 31,
		Links:  []otel.Link{{TraceID: [16]byte{4}, SpanID: [8]byte{5}, TraceState: "c=d", Flags: 3, Attributes: attrs, Dropped: 4}, {Attributes: attrs}},
		Events: []otel.Event{{Name: "event", Time: 7, HasTime: true, Attributes: attrs, Dropped: 5}, {Attributes: attrs}},
	}
	log := otel.Log{
		Body: otel.Any{Kind: otel.List, List: []otel.Any{{Kind: otel.Int, Int: 3}}}, Time: -5, HasTime: true, Observed: 6, Severity: 17,
		SeverityText: "bad", EventName: "event", TraceID: [16]byte{1}, SpanID: [8]byte{2}, Flags: 1, Attributes: attrs, Dropped: 2,
	}
	resource := otel.Resource{Attributes: attrs, SchemaURL: "of the resource", Dropped: 3}
	scope := otel.Scope{Name: "scope", Version: "1", SchemaURL: "of the scope", Attributes: attrs, Dropped: 4}
	for _, e := range []codec.Encoding{codec.JSON, codec.Protobuf} {
		var records []byte
		for range 2 {
			from := len(records)
			records = e.AppendSpan(records, &span)
			for i := range span.Links {
				records = e.AppendLink(records, &span.Links[i], i == 0)
			}
			records = e.EndList(records)
			for i := range span.Events {
				records = e.AppendEvent(records, &span.Events[i], i == 0)
			}
			records = e.EndSpan(e.EndList(records), from)
		}
		group := codec.Group{Resource: &resource, Scopes: []*codec.ScopeGroup{{Scope: scope, Records: records}}}
		traces := e.AppendMessage(nil, codec.Spans, []codec.Group{group, group})
		group.Scopes = []*codec.ScopeGroup{{Scope: scope, Records: e.AppendLog(e.AppendLog(nil, &log), &log)}}
		logs := e.AppendMessage(nil, codec.Logs, []codec.Group{group, group})

		td, err := ptrace.Unmarshaler(&ptrace.JSONUnmarshaler{}).UnmarshalTraces(traces)
		ld, lerr := plog.Unmarshaler(&plog.JSONUnmarshaler{}).UnmarshalLogs(logs)
		if e == codec.Protobuf {
			td, err = (&ptrace.ProtoUnmarshaler{}).UnmarshalTraces(traces)
			ld, lerr = (&plog.ProtoUnmarshaler{}).UnmarshalLogs(logs)
		}
		if err != nil || lerr != nil || td.SpanCount() != 4 || ld.LogRecordCount() != 4 {
			t.Fatalf("%d spans, %v; %d log records, %v", td.SpanCount(), err, ld.LogRecordCount(), lerr)
		}
		same := func(what string, got, want any) {
			expect.DeepEqual(t, got, want, "encoding %d: %s", e, what)
		}
		var readSpan otel.Span
		var readLog otel.Log
		var readScope otel.Scope
		var readResource otel.Resource
		rs, rl := td.ResourceSpans().At(1), ld.ResourceLogs().At(1)
		ss := rs.ScopeSpans().At(0)
		span.Attributes.Unify()
		same("the span of pdata", spanOf(ss.Spans().At(1)), span)
		same("the log record of pdata", logOf(rl.ScopeLogs().At(0).LogRecords().At(1)), log)
		same("the scope of pdata", scopeOf(ss.Scope(), ss.SchemaUrl()), scope)
		same("the resource of pdata", resourceOf(rs.Resource(), rs.SchemaUrl()), resource)

		var s, l seen
		r := codec.NewReader(traces, e)
		if _, err := r.Walk(0, int64(len(traces)), false, &s); err != nil || len(s.spans) != 4 || len(s.holders) != 2 {
			t.Fatalf("encoding %d: %+v, %v", e, s, err)
		}
		if s.trace != span.TraceID || s.span != span.SpanID || s.parent != span.Parent {
			t.Errorf("encoding %d: the ids are %x, %x, %x", e, s.trace, s.span, s.parent)
		}
		for _, err := range []error{
			r.Span(s.spans[3], &readSpan), r.Scope(&s.scopes[1], &readScope), r.Resource(&s.holders[1], &readResource),
		} {
			must(t, err)
		}
		same("the span", readSpan, span)
		same("the scope", readScope, scope)
		same("the resource", readResource, resource)
		r = codec.NewReader(logs, e)
		if _, err := r.Walk(0, int64(len(logs)), false, &l); err != nil || len(l.logs) != 4 {
			t.Fatalf("encoding %d: %+v, %v", e, l, err)
		}
		must(t, r.Log(l.logs[3], &readLog))
		same("the log record", readLog, log)
	}
}
