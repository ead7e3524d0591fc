package zipkin_test

import (
	"context"
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/entrace-go/entrace/convert/otlp"
	"github.com/entrace-go/entrace/convert/zipkin"
	"github.com/entrace-go/entrace/internal/read/input"
	"github.com/entrace-go/entrace/internal/testkit/converttest"
	"github.com/entrace-go/entrace/view"
)

var toOTLP = converttest.Format{
	Decode: zipkin.Decode,
	Encode: func(ctx context.Context, w io.Writer, v *view.View) error { return otlp.Encode(ctx, w, v, nil) },
}

func TestSamples(t *testing.T) {
	toOTLP.Samples(t, "otel.json")
}

func FuzzDecode(f *testing.F) {
	toOTLP.FuzzDecode(f, "otel.json")
}

func TestDecode(t *testing.T) {
	const in = `[{"traceId":"1","id":"2","name":"shared","kind":"SERVER","timestamp":5,"shared":true,"localEndpoint":{"serviceName":"cart","ipv4":"10.0.0.1","port":80},
		"remoteEndpoint":{"serviceName":"web","ipv6":"::1","port":9},"tags":{"error":"","a":"b"}}]
		{"traceId":"1","id":"3","parentId":"2","name":"child","duration":1.5,"annotations":[{"timestamp":7,"value":"cs"}]}`
	const want = `{"resourceSpans":[{"resource":{"attributes":[{"key":"host.ip","value":{"stringValue":"10.0.0.1"}},{"key":"host.port","value":{"intValue":"80"}},` +
		`{"key":"service.name","value":{"stringValue":"cart"}}]},"scopeSpans":[{"scope":{},"spans":[{"traceId":"00000000000000000000000000000001","spanId":"0000000000000002",` +
		`"flags":257,"name":"shared","kind":2,"startTimeUnixNano":"5000","attributes":[{"key":"a","value":{"stringValue":"b"}},{"key":"network.peer.address","value":{"stringValue":"::1"}},` +
		`{"key":"network.peer.port","value":{"intValue":"9"}},{"key":"peer.service","value":{"stringValue":"web"}},{"key":"zipkin.shared","value":{"boolValue":true}}],"status":{"code":2}},` +
		`{"traceId":"00000000000000000000000000000001","spanId":"0000000000000003","parentSpanId":"0000000000000002","flags":257,"name":"child","kind":1,` +
		`"endTimeUnixNano":"1000","status":{},"events":[{"timeUnixNano":"7000","name":"cs"}]}]}]}]}` + "\n"
	if got, err := toOTLP.Text(t, in); err != nil || got != want {
		t.Errorf("it becomes\n%s, %v; want\n%s", got, err, want)
	}
}

// TestDamageIsLocated decodes damaged input. The spans before the damage must be decoded. If the damage is a value of
// a wrong type, the spans after it must be decoded as well.
func TestDamageIsLocated(t *testing.T) {
	const one, bad, three = `{"traceId":"1","id":"1","name":"one"}`, `{"traceId":"1","id":5}`, `{"traceId":"1","id":"3","name":"three"}`
	for _, test := range []struct {
		in, want string
		offset   int64
	}{
		{"[" + one + "," + bad + "," + three + "]", "one three", int64(len("[" + one))},
		{"[" + one + `,{"traceId":"1","id":"2","annotations":[{"timestamp":1,"value":"sr","endpoint":{"serviceName":"a"}}]},` + three + "]", "one three", int64(len("[" + one))},
		{"[" + one + `,{"traceId":"g"},` + three + "]", "one three", int64(len("[" + one))},
		{one + "\n" + "}" + three, "one", int64(len(one + "\n"))},
		{"[" + one + ",", "one", int64(len("[" + one))},
		{"[" + one, "one", int64(len("[" + one))},
		{one + `{"traceId`, "one", int64(len(one))},
	} {
		got, err := toOTLP.Text(t, test.in)
		damage, ok := errors.AsType[*input.Error](err)
		if !ok || damage.Offset != test.offset || damage.Unit != "span 2" {
			t.Errorf("%s: the error is %v, want one of span 2 at offset %d", test.in, err, test.offset)
		}
		for name := range strings.FieldsSeq("one three") {
			if strings.Contains(got, name) != strings.Contains(test.want, name) {
				t.Errorf("%s: there is %s, want %s", test.in, got, test.want)
			}
		}
	}
}

// TestSharedSpanKeepsIDs decodes both halves of a span of a service that calls itself. In OTLP, both must have the
// ids and the parent that they had.
func TestSharedSpanKeepsIDs(t *testing.T) {
	const span = `{"traceId":"1","id":"5","parentId":"1","timestamp":2,"duration":1,"localEndpoint":{"serviceName":"a"},"kind":`
	got, err := toOTLP.Text(t, `[{"traceId":"1","id":"1","timestamp":1,"localEndpoint":{"serviceName":"a"}},`+span+`"CLIENT"},`+span+`"SERVER","shared":true}]`)
	if n := strings.Count(got, `"spanId":"0000000000000005","parentSpanId":"0000000000000001"`); err != nil || n != 2 {
		t.Errorf("%d halves, want 2: %s, %v", n, got, err)
	}
}
