package jaeger_test

import (
	"context"
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/entrace-go/entrace/convert/jaeger"
	"github.com/entrace-go/entrace/convert/otlp"
	"github.com/entrace-go/entrace/internal/read/input"
	"github.com/entrace-go/entrace/internal/testkit/converttest"
	"github.com/entrace-go/entrace/view"
)

var toOTLP = converttest.Format{
	Decode: jaeger.Decode,
	Encode: func(ctx context.Context, w io.Writer, v *view.View) error { return otlp.Encode(ctx, w, v, nil) },
}

func TestSamples(t *testing.T) {
	toOTLP.Samples(t, "buildx.json")
}

func FuzzDecode(f *testing.F) {
	toOTLP.FuzzDecode(f, "buildx.json")
}

func TestDecode(t *testing.T) {
	const process = `"processes":{"p1":{"serviceName":"cart","tags":[{"key":"host.name","type":"string","value":"h"}]}}`
	for _, test := range []struct{ name, span, want string }{
		{
			"ids of 64 bits, a parent of old versions, and a link to another trace",
			`{"traceID":"abc","spanID":"1","parentSpanID":"2","operationName":"op","startTime":5,"duration":7,"flags":1,"references":[
				{"refType":"CHILD_OF","traceID":"abd","spanID":"3"},{"refType":"CHILD_OF","traceID":"abc","spanID":"0"}]}`,
			`{"traceId":"00000000000000000000000000000abc","spanId":"0000000000000001","parentSpanId":"0000000000000002","flags":257,"name":"op","kind":1,` +
				`"startTimeUnixNano":"5000","endTimeUnixNano":"12000","status":{},"links":[{"traceId":"00000000000000000000000000000abd","spanId":"0000000000000003",` +
				`"attributes":[{"key":"jaeger.ref_type","value":{"stringValue":"CHILD_OF"}}],"flags":257}]}`,
		},
		{
			"types of tags",
			`{"traceID":"1","spanID":"1","operationName":"op","tags":[{"key":"error","type":"bool","value":true},{"key":"f","type":"float64","value":1},
				{"key":"b","type":"binary","value":"AP8="},{"key":"i","type":"int64","value":"9007199254740993"},{"key":"span.kind","type":"string","value":"server"},
				{"key":"w3c.tracestate","type":"string","value":"a=b"},{"key":"none"}],"logs":[{"timestamp":1,"fields":[{"key":"message","type":"string","value":"m"}]}],
				"warnings":["clock skew"]}`,
			`{"traceId":"00000000000000000000000000000001","spanId":"0000000000000001","traceState":"a=b","flags":256,"name":"op","kind":2,` +
				`"attributes":[{"key":"b","value":{"bytesValue":"AP8="}},{"key":"f","value":{"doubleValue":1.0}},{"key":"i","value":{"intValue":"9007199254740993"}},` +
				`{"key":"jaeger.warnings","value":{"arrayValue":{"values":[{"stringValue":"clock skew"}]}}},{"key":"none","value":{"stringValue":""}}],"status":{"code":2},` +
				`"events":[{"timeUnixNano":"1000","name":"log","attributes":[{"key":"message","value":{"stringValue":"m"}}]}]}`,
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			head := `{"resourceSpans":[{"resource":{"attributes":[{"key":"host.name","value":{"stringValue":"h"}},{"key":"service.name","value":{"stringValue":"cart"}}]},"scopeSpans":[{"scope":{},"spans":[`
			of := strings.Replace(test.span, `{`, `{"processID":"p1",`, 1)
			for _, in := range []string{`{"data":[{"traceID":"1","spans":[` + of + `],` + process + `}],"errors":null}`, `{"spans":[` + of + `],` + process + `}`} {
				if got, err := toOTLP.Text(t, in); err != nil || got != head+test.want+"]}]}]}\n" {
					t.Errorf("%s becomes\n%s, %v; want\n%s", in, got, err, head+test.want)
				}
			}
		})
	}
}

// TestBadSpanIsLeftOut decodes a span with an invalid id. The error must name it, and the other spans must be
// decoded.
func TestBadSpanIsLeftOut(t *testing.T) {
	got, err := toOTLP.Text(t, ` {"data":[{"spans":[{"traceID":"1","spanID":"1","operationName":"one"},{"traceID":"x","spanID":"2"},{"traceID":"1","spanID":"3","operationName":"three"}]}]}`)
	damage, ok := errors.AsType[*input.Error](err)
	if !ok || damage.Unit != "document 1" || damage.Field != "data[0].spans[1]" {
		t.Errorf("the error is %v", err)
	}
	if !strings.Contains(got, `"one"`) || !strings.Contains(got, `"three"`) {
		t.Errorf("there is %s", got)
	}
}

// TestErrorTag decodes tags that say in other forms that a span failed or not.
func TestErrorTag(t *testing.T) {
	for _, x := range []struct{ key, value, want string }{
		{"error", `"true"`, `"status":{"code":2}`},
		{"error", `"no stock"`, `"status":{"message":"no stock","code":2}`},
		{"error", `"false"`, `"status":{}`},
		{"error", `""`, `"status":{}`},
		{"error", `false`, `"status":{}`},
		{"otel.status_code", `"error"`, `"status":{"code":2}`},
	} {
		got, err := toOTLP.Text(t, `{"spans":[{"traceID":"1","spanID":"1","tags":[{"key":"`+x.key+`","value":`+x.value+`}]}]}`)
		if err != nil || !strings.Contains(got, x.want) {
			t.Errorf("%s=%s becomes %s, %v; want %s", x.key, x.value, got, err, x.want)
		}
	}
}
