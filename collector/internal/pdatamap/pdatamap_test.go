package pdatamap_test

import (
	"errors"
	"reflect"
	"testing"

	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/plog"
	"go.opentelemetry.io/collector/pdata/ptrace"

	"github.com/entrace-go/entrace/collector/internal/pdatamap"
	"github.com/entrace-go/entrace/format"
	"github.com/entrace-go/entrace/internal/otel"
)

// An attribute of an OTLP JSON text, with a key that comes twice.
const twice = `[{"key":"a","value":{"intValue":"1"}},{"key":"a","value":{"arrayValue":{"values":[{"boolValue":true}]}}},{"key":"\ufffd","value":{"bytesValue":"AQI="}}]`

func readSpan(t *testing.T, text string, to *otel.Span) error {
	t.Helper()
	td, err := (&ptrace.JSONUnmarshaler{}).UnmarshalTraces([]byte(`{"resourceSpans":[{"scopeSpans":[{"spans":[` + text + `]}]}]}`))
	if err != nil {
		t.Fatal(err)
	}
	return pdatamap.Span(td.ResourceSpans().At(0).ScopeSpans().At(0).Spans().At(0), to)
}

func readLog(t *testing.T, text string, to *otel.Log) error {
	t.Helper()
	ld, err := (&plog.JSONUnmarshaler{}).UnmarshalLogs([]byte(`{"resourceLogs":[{"scopeLogs":[{"logRecords":[` + text + `]}]}]}`))
	if err != nil {
		t.Fatal(err)
	}
	return pdatamap.Log(ld.ResourceLogs().At(0).ScopeLogs().At(0).LogRecords().At(0), to)
}

func TestReadSpan(t *testing.T) {
	var got otel.Span
	for range 2 { // the second time into the memory of the first
		err := readSpan(t, `{"traceId":"01000000000000000000000000000000","spanId":"0200000000000000","parentSpanId":"0300000000000000",
			"traceState":"a=b","flags":769,"name":"GET","kind":2,"startTimeUnixNano":"5","endTimeUnixNano":"3","attributes":`+twice+`,
			"droppedAttributesCount":1,"droppedEventsCount":2,"droppedLinksCount":3,"status":{"message":"no","code":2},
			"events":[{"timeUnixNano":"4","name":"e","attributes":`+twice+`,"droppedAttributesCount":4}],
			"links":[{"traceId":"04000000000000000000000000000000","spanId":"0500000000000000","traceState":"c=d","attributes":`+twice+`,
			"droppedAttributesCount":5,"flags":1}]}`, &got)
		if err != nil {
			t.Fatal(err)
		}
		one := otel.Any{Kind: otel.Int, Int: 1}
		list := otel.Any{Kind: otel.List, List: []otel.Any{{Kind: otel.Bool, Bool: true}}}
		attrs := otel.Attributes{
			{Name: "a", Value: format.StringValue(string(otel.AppendAnyValue(nil, &one))), Encoding: otel.AnyValue},
			{Name: "a", Value: format.StringValue(string(otel.AppendAnyValue(nil, &list))), Encoding: otel.AnyValue},
			{Name: "\ufffd", Value: format.BytesValue([]byte{1, 2})},
		}
		want := otel.Span{
			TraceID: [16]byte{1}, SpanID: [8]byte{2}, Parent: [8]byte{3}, TraceState: "a=b", Flags: 769, Name: "GET", Kind: otel.KindServer,
			Start: 5, Duration: -2, Ended: true, Attributes: attrs, DroppedAttributes: 1, DroppedEvents: 2, DroppedLinks: 3,
			Status: otel.StatusError, Description: "no",
			Events: []otel.Event{{Time: 4, HasTime: true, Name: "e", Attributes: attrs, Dropped: 4}},
			Links:  []otel.Link{{TraceID: [16]byte{4}, SpanID: [8]byte{5}, TraceState: "c=d", Flags: 1, Attributes: attrs, Dropped: 5}},
		}
		if !reflect.DeepEqual(got, want) {
			t.Errorf("got %+v\nwant %+v", got, want)
		}
	}
}

func TestReadOpenSpan(t *testing.T) {
	for text, unmarked := range map[string]bool{
		`{"startTimeUnixNano":"5"}`: true,
		`{"startTimeUnixNano":"5","attributes":[{"key":"entrace.open","value":{"boolValue":true}}]}`: false,
	} {
		var got otel.Span
		if err := readSpan(t, text, &got); err != nil || got.Ended || got.Unmarked != unmarked || len(got.Attributes) > 0 {
			t.Errorf("%s is %+v, %v", text, got, err)
		}
	}
}

func TestReadLog(t *testing.T) {
	var got otel.Log
	err := readLog(t, `{"timeUnixNano":"5","observedTimeUnixNano":"6","severityNumber":17,"severityText":"bad","body":{"kvlistValue":{"values":[
		{"key":"k","value":{"doubleValue":0.5}},{"key":"k","value":{}}]}},"attributes":[{"key":"code.file.path","value":{"stringValue":"/x/y.go"}},
		{"key":"code.line.number","value":{"intValue":7}},{"key":"took","value":{"intValue":8}},
		{"key":"entrace.duration","value":{"arrayValue":{"values":[{"stringValue":"took"}]}}}],"droppedAttributesCount":1,"flags":1,
		"traceId":"01000000000000000000000000000000","spanId":"0200000000000000","eventName":"ev"}`, &got)
	if err != nil {
		t.Fatal(err)
	}
	want := otel.Log{
		Time: 5, HasTime: true, Observed: 6, Severity: 17, SeverityText: "bad", EventName: "ev", TraceID: [16]byte{1}, SpanID: [8]byte{2},
		Flags: 1, Dropped: 1, Metadata: format.Metadata{File: format.Some("/x/y.go"), Line: format.Some(uint32(7))},
		Body:       otel.Any{Kind: otel.Map, Map: []otel.KeyValue{{Key: "k", Value: otel.Any{Kind: otel.Float, Float: 0.5}}, {Key: "k"}}},
		Attributes: otel.Attributes{{Name: "took", Value: format.I64Value(8), Encoding: otel.Duration}},
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v\nwant %+v", got, want)
	}
	if e := got.Entry(otel.Where{}); e.Metadata.Name != "event y.go:7" {
		t.Errorf("its entry is %+v", e)
	}
}

// TestReadRefusesDeepValues: a value that readers of a trace would not follow is an error.
func TestReadRefusesDeepValues(t *testing.T) {
	deep := func(n int) pcommon.Value {
		v := pcommon.NewValueEmpty()
		for in := v; n > 0; n-- {
			in = in.SetEmptySlice().AppendEmpty()
		}
		return v
	}
	for n, want := range map[int]error{64: nil, 65: pdatamap.ErrTooDeep} {
		record := plog.NewLogRecord()
		deep(n).CopyTo(record.Body())
		if err := pdatamap.Log(record, new(otel.Log)); !errors.Is(err, want) {
			t.Errorf("a body of depth %d: %v", n, err)
		}
		span := ptrace.NewSpan()
		deep(n).CopyTo(span.Links().AppendEmpty().Attributes().PutEmpty("a"))
		if err := pdatamap.Span(span, new(otel.Span)); !errors.Is(err, want) {
			t.Errorf("a link of depth %d: %v", n, err)
		}
	}
}

func TestReadResourceAndScope(t *testing.T) {
	res := pcommon.NewResource()
	res.Attributes().PutStr("service.name", "cart")
	res.SetDroppedAttributesCount(1)
	var r otel.Resource
	if err := pdatamap.Resource(res, "url", &r); err != nil || r.Service() != "cart" || r.SchemaURL != "url" || r.Dropped != 1 {
		t.Errorf("resource %+v, %v", r, err)
	}
	scope := pcommon.NewInstrumentationScope()
	scope.SetName("lib\xff")
	scope.SetVersion("1")
	scope.Attributes().PutStr("a", "\xff")
	var s otel.Scope
	want := otel.Scope{Name: "lib\ufffd", Version: "1", SchemaURL: "url", Attributes: otel.Attributes{{Name: "a", Value: format.BytesValue([]byte{0xff})}}}
	if err := pdatamap.Scope(scope, "url", &s); err != nil || !reflect.DeepEqual(s, want) {
		t.Errorf("scope %+v, %v", s, err)
	}
}
