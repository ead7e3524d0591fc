package stdouttrace_test

import (
	"context"
	"io"
	"strings"
	"testing"

	"github.com/entrace-go/entrace/convert/otlp"
	"github.com/entrace-go/entrace/convert/stdouttrace"
	"github.com/entrace-go/entrace/internal/testkit/converttest"
	"github.com/entrace-go/entrace/view"
)

var toOTLP = converttest.Format{
	Decode: stdouttrace.Decode,
	Encode: func(ctx context.Context, w io.Writer, v *view.View) error { return otlp.Encode(ctx, w, v, nil) },
}

func TestSamples(t *testing.T) {
	toOTLP.Samples(t, "pretty.json", "lines.json", "logs.json")
}

func FuzzDecode(f *testing.F) {
	toOTLP.FuzzDecode(f, "pretty.json", "lines.json", "logs.json")
}

// TestDecode decodes the output of old versions, in an array and after other text.
func TestDecode(t *testing.T) {
	const in = `[{"Name":"n","SpanContext":{"TraceID":"00000000000000000000000000000001","SpanID":"0000000000000001","TraceFlags":"00"},"SpanKind":1,
		"StartTime":"2020-01-01T00:00:00Z","EndTime":"0001-01-01T00:00:00Z","Status":{"Code":"Unset"},
		"InstrumentationLibrary":{"Name":"lib","Version":"1"},"Attributes":[{"Key":"f","Value":{"Type":"FLOAT64","Value":1}}]}]`
	const want = `{"resourceSpans":[{"resource":{},"scopeSpans":[{"scope":{"name":"lib","version":"1"},"spans":[{"traceId":"00000000000000000000000000000001",` +
		`"spanId":"0000000000000001","flags":256,"name":"n","kind":1,"startTimeUnixNano":"1577836800000000000","attributes":[{"key":"f","value":{"doubleValue":1.0}}],"status":{}}]}]}]}` + "\n"
	if got, err := toOTLP.Text(t, in); err != nil || got != want {
		t.Errorf("it becomes\n%s, %v; want\n%s", got, err, want)
	}
}

// TestDeepValueIsLeftOut checks that a record whose value nests too deep is an error and does not affect other
// records.
func TestDeepValueIsLeftOut(t *testing.T) {
	record := func(depth int) string {
		return `{"Name":"n","Attributes":[{"Key":"a","Value":` + strings.Repeat(`{"Type":"SLICE","Value":[`, depth) + strings.Repeat("]}", depth) + `}]}`
	}
	got, err := toOTLP.Text(t, record(65)+record(2000)+record(64))
	if err == nil || !strings.Contains(err.Error(), "record 2 ") || strings.Count(got, `"name":"n"`) != 2 {
		t.Errorf("%v, and there is %s", err, got)
	}
}
