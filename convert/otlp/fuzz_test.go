package otlp_test

import (
	"bytes"
	"errors"
	"os"
	"strings"
	"testing"

	"github.com/entrace-go/entrace/convert/otlp"
	"github.com/entrace-go/entrace/format"
	"github.com/entrace-go/entrace/internal/read/input"
	"github.com/entrace-go/entrace/internal/testkit/expect"
	"github.com/entrace-go/entrace/internal/testkit/hosttest"
	"github.com/entrace-go/entrace/internal/testkit/tracetest"
)

// FuzzDecode decodes random input. Encoding the result, in both encodings, and decoding it again must give the same
// trace.
func FuzzDecode(f *testing.F) {
	// Whole files make fuzzing slow. Their beginning has all relevant parts of the format.
	for _, name := range []string{"collector-traces.jsonl", "collector-logs.jsonl", "collector-traces.binpb", "collector-logs.binpb"} {
		f.Add(fixture(f, name)[:3<<10])
	}
	everything := spans(`{`+trace1+`"spanId":"`+spanA+`","kind":3,"flags":0,"traceState":"a=1","droppedLinksCount":1,"endTimeUnixNano":"1","status":{"code":2,"message":"m"},`+
		`"attributes":[{"key":"a","value":{"doubleValue":"NaN"}},{"key":"b","value":{"bytesValue":"AA=="}},{"key":"c","value":{"arrayValue":{"values":[{},{"boolValue":true}]}}},`+
		`{"key":"otel.json","value":{"kvlistValue":{"values":[{"key":"k","value":{"intValue":"-1"}}]}}}],"events":[{"name":"e"}],"links":[{"flags":3}]}`) +
		logs(`{"body":{"stringValue":"x"},"observedTimeUnixNano":"7","eventName":"e","flags":1}`)
	f.Add([]byte(everything))
	frames := fuzzEncode(f, fuzzFirst(f, everything), &otlp.EncodeOptions{Protobuf: true})
	f.Add(frames)
	f.Add(frames[4 : 4+int(frames[2])<<8+int(frames[3])])
	for _, s := range []string{
		spans(span("A", spanA, spanB), span("B", spanB, spanA)), logs(`{"body":{"kvlistValue":{"values":[{"key":"a"},{"key":"a","value":{"intValue":1}}]}}}`),
		logs(`{` + trace1 + `"spanId":"` + spanA + `","severityNumber":-1,"severityText":"x"}`), "\ufeff{}\n{\"resourceSpans\":[{}]}", "\x00\x00\x00\x00",
		spans(`{"attributes":[{"key":"a","value":{"arrayValue":{}}},{"key":"a","value":{"stringValue":"[]"}}]}`), "\n\n", "\x0a\x00",
	} {
		f.Add([]byte(s))
	}
	dir := f.TempDir()
	f.Fuzz(func(t *testing.T, b []byte) {
		first, whole := fuzzDecode(t, dir, b)
		if first == nil {
			return
		}
		lines := fuzzEncode(t, first, nil)
		if whole {
			frames := fuzzEncode(t, first, &otlp.EncodeOptions{Protobuf: true})
			again, ok := fuzzDecode(t, dir, frames)
			if !ok {
				t.Fatalf("what was encoded is damaged: %q", frames)
			}
			if got := fuzzEncode(t, again, nil); len(canonical(t, got)) != len(canonical(t, lines)) {
				t.Errorf("protobuf comes back as\n%s want\n%s", got, lines)
			}
		}
		second, ok := fuzzDecode(t, dir, lines)
		if !ok {
			t.Fatalf("what was encoded is damaged: %s", lines)
		}
		got, want := canonical(t, fuzzEncode(t, second, nil)), canonical(t, lines)
		expect.MustEqual(t, len(got), len(want), "spans and log records")
		for i := range got {
			if got[i] != want[i] {
				t.Fatalf("got  %s\nwant %s", got[i], want[i])
			}
		}
	})
}

func fuzzFirst(f *testing.F, in string) []byte {
	f.Helper()
	trace, whole := fuzzDecode(f, f.TempDir(), []byte(in))
	if !whole {
		f.Fatal("the seed is damaged")
	}
	return trace
}

// fuzzDecode decodes b. It returns the bytes of the trace, and whether there was no error.
func fuzzDecode(t testing.TB, dir string, b []byte) (trace []byte, whole bool) {
	t.Helper()
	var out bytes.Buffer
	w, err := format.NewWriter(&out, 0, format.IET, &format.WriterOptions{TempDir: dir})
	must(t, err)
	err = otlp.Decode(t.Context(), bytes.NewReader(b), w, nil)
	if damage, ok := errors.AsType[*input.Error](err); err != nil && (!ok || damage.Offset < 0 || damage.Offset > int64(len(b)) || !strings.HasPrefix(damage.Unit, "message ")) {
		t.Fatalf("the error is %v", err)
	}
	must(t, w.Close())
	return out.Bytes(), err == nil
}

func fuzzEncode(t testing.TB, trace []byte, o *otlp.EncodeOptions) []byte {
	t.Helper()
	name := hosttest.Path(t, "x.iet")
	must(t, os.WriteFile(name, trace, 0o600))
	f := tracetest.OpenFile(t, name)
	v := tracetest.View(t, f)
	var b bytes.Buffer
	must(t, otlp.Encode(t.Context(), &b, v, o))
	return b.Bytes()
}
