package otlp_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/entrace-go/entrace/convert/otlp"
	"github.com/entrace-go/entrace/format"
	"github.com/entrace-go/entrace/internal/otel/codec"
	"github.com/entrace-go/entrace/internal/read/input"
	"github.com/entrace-go/entrace/internal/testkit/expect"
	"github.com/entrace-go/entrace/internal/testkit/hosttest"
	"github.com/entrace-go/entrace/internal/testkit/jsontest"
	"github.com/entrace-go/entrace/internal/testkit/tracetest"
	"github.com/entrace-go/entrace/view"
)

var must = expect.Must

func fixture(t testing.TB, name string) []byte {
	t.Helper()
	return tracetest.ReadFile(t, filepath.Join("testdata", name))
}

// decode returns a view of everything in r that can be decoded, and the error.
func decode(t testing.TB, r io.Reader) (*view.View, error) {
	t.Helper()
	return decodeTo(t, r, 0)
}

func decodeTo(t testing.TB, r io.Reader, version format.Version) (*view.View, error) {
	t.Helper()
	out, err := os.Create(hosttest.Path(t, "x.et"))
	must(t, err)
	defer out.Close()
	w, err := format.NewWriter(out, version, format.ET, nil)
	must(t, err)
	derr := otlp.Decode(t.Context(), r, w, nil)
	must(t, w.Close())
	f := tracetest.OpenFile(t, out.Name())
	v := tracetest.View(t, f)
	return v, derr
}

func mustDecode(t testing.TB, r io.Reader) *view.View {
	t.Helper()
	v, err := decode(t, r)
	must(t, err)
	return v
}

func encode(t testing.TB, v *view.View, o *otlp.EncodeOptions) []byte {
	t.Helper()
	var b bytes.Buffer
	must(t, otlp.Encode(t.Context(), &b, v, o))
	return b.Bytes()
}

var canonical = jsontest.OTLP

func compare(t *testing.T, got, want []string) {
	t.Helper()
	expect.Equal(t, len(got), len(want), "spans and log records")
	for i := range min(len(got), len(want)) {
		if got[i] != want[i] {
			t.Errorf("got  %s\nwant %s", got[i], want[i])
			return
		}
	}
}

func TestCollectorFiles(t *testing.T) {
	for _, signal := range []string{"traces", "logs"} {
		lines := fixture(t, "collector-"+signal+".jsonl")
		want := canonical(t, lines)
		if len(want) == 0 {
			t.Fatal("there is nothing in the fixture")
		}
		frames := fixture(t, "collector-"+signal+".binpb")
		for name, in := range map[string][]byte{"json": lines, "framed": frames, "bare": frames[4:]} {
			t.Run(signal+"/"+name, func(t *testing.T) {
				v, err := decodeTo(t, bytes.NewReader(in), format.V2)
				must(t, err)
				compare(t, canonical(t, encode(t, v, nil)), want)
				v = mustDecode(t, bytes.NewReader(in))
				compare(t, canonical(t, encode(t, v, nil)), want)
				again := encode(t, v, &otlp.EncodeOptions{Protobuf: true})
				compare(t, canonical(t, encode(t, mustDecode(t, bytes.NewReader(again)), nil)), want)
			})
		}
	}
}

func TestBothSignals(t *testing.T) {
	in := slices.Concat(fixture(t, "collector-traces.jsonl"), fixture(t, "collector-logs.jsonl"))
	v := mustDecode(t, bytes.NewReader(in))
	compare(t, canonical(t, encode(t, v, nil)), canonical(t, in))
	compare(t, canonical(t, encode(t, v, &otlp.EncodeOptions{Signals: otlp.Traces})), canonical(t, fixture(t, "collector-traces.jsonl")))
	compare(t, canonical(t, encode(t, v, &otlp.EncodeOptions{Signals: otlp.Logs})), canonical(t, fixture(t, "collector-logs.jsonl")))
	frames := encode(t, v, &otlp.EncodeOptions{Protobuf: true})
	compare(t, canonical(t, encode(t, mustDecode(t, bytes.NewReader(frames)), nil)), canonical(t, in))
}

// tree returns the entries of the file, one per line, each with its name or message, indented by depth.
func tree(v *view.View) string {
	var b strings.Builder
	var walk func(id uint32, depth int)
	walk = func(id uint32, depth int) {
		e, err := v.Files()[0].Entry(id)
		if err != nil {
			panic(err)
		}
		name := e.Metadata.Name
		if v.Role(view.Row(id)) == view.RoleLog {
			name = "log " + e.Message.Value
		}
		b.WriteString(strings.Repeat("  ", depth) + name + "\n")
		for _, kid := range v.Files()[0].Children(id) {
			walk(kid, depth+1)
		}
	}
	walk(0, 0)
	return b.String()
}

const (
	trace1 = `"traceId":"0102030405060708090a0b0c0d0e0f10",`
	spanA  = "aaaaaaaaaaaaaaaa"
	spanB  = "bbbbbbbbbbbbbbbb"
	spanC  = "cccccccccccccccc"
)

func spans(items ...string) string {
	return `{"resourceSpans":[{"resource":{"attributes":[{"key":"host.name","value":{"stringValue":"h"}}]},"scopeSpans":[{"spans":[` + strings.Join(items, ",") + `]}]}]}` + "\n"
}

func logs(items ...string) string {
	return `{"resourceLogs":[{"resource":{"attributes":[{"key":"host.name","value":{"stringValue":"h"}}]},"scopeLogs":[{"logRecords":[` + strings.Join(items, ",") + `]}]}]}` + "\n"
}

func span(name, id, parent string) string {
	return `{` + trace1 + `"spanId":"` + id + `","parentSpanId":"` + parent + `","name":"` + name + `","startTimeUnixNano":"5"}`
}

func TestTree(t *testing.T) {
	withLinks := strings.TrimSuffix(span("C", spanC, spanB), "}") +
		`,"events":[{"name":"first","timeUnixNano":"9"},{"name":"second","timeUnixNano":"3"}],"links":[{}]}`
	tests := []struct{ name, in, want string }{
		{"children first", spans(withLinks) + spans(span("B", spanB, spanA)) + spans(span("A", spanA, "")), `root
  resource
    A
      B
        C
          link
          first
          second
`},
		{"log before its span", logs(`{`+trace1+`"spanId":"`+spanB+`","body":{"stringValue":"of B"}}`, `{"body":{"stringValue":"of none"}}`,
			`{`+trace1+`"spanId":"`+spanC+`","body":{"stringValue":"of one that is not here"}}`) +
			spans(span("B", spanB, spanA), span("A", spanA, spanC)), `root
  resource
    A
      B
        log of B
    log of none
    log of one that is not here
`},
		{"a cycle", spans(span("A", spanA, spanB), span("B", spanB, spanC), span("C", spanC, spanA)), `root
  resource
    C
      B
        A
`},
		{"its own parent", spans(span("A", spanA, spanA)), "root\n  resource\n    A\n"},
		{"a parent of another resource", spans(span("A", spanA, spanB)) + strings.Replace(spans(span("B", spanB, "")), `"h"`, `"other"`, 1), `root
  resource
    A
  resource
    B
`},
		{
			"resources", `{"resourceSpans":[{"schemaUrl":"u"},{"resource":{"attributes":[{"key":"a","value":{"intValue":1}},{"key":"b"}]}}]}
{"resourceLogs":[ {"resource": { "attributes":[{"key":"b","value":{}},{"value":{"intValue":"1"},"key":"a"}]}},{"resource":null,"schema_url":"u"},{}]}`,
			"root\n  resource\n  resource\n",
		},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			v := mustDecode(t, strings.NewReader(test.in))
			expect.Equal(t, tree(v), test.want, "the tree")
			n := 0
			for line := range strings.Lines(test.in) {
				n += len(canonical(t, []byte(line)))
			}
			expect.Equal(t, len(canonical(t, encode(t, v, nil))), n, "spans and log records come back")
		})
	}
}

// TestOtherMessages decodes a ResourceSpans or ResourceLogs a line, and an answer of Aspire.
func TestOtherMessages(t *testing.T) {
	bare := func(message string) string {
		return strings.TrimSuffix(message[strings.Index(message, "[")+1:], "]}\n") + "\n"
	}
	said := logs(`{` + trace1 + `"spanId":"` + spanB + `","body":{"stringValue":"said"}}`)
	lines := bare(spans(span("B", spanB, spanA))) + `{"resource":{},"scopeMetrics":[{}]}` + bare(said) + bare(spans(span("A", spanA, "")))
	answer := `{"data":` + spans(span("A", spanA, ""), span("B", spanB, spanA)) + `,"totalCount":2}{"data":` + said + `}`
	for _, in := range []string{lines, answer} {
		expect.Equal(t, tree(mustDecode(t, strings.NewReader(in))), "root\n  resource\n    A\n      B\n        log said\n", "%s becomes", in)
	}
}

func TestLenientJSON(t *testing.T) {
	loose := "\ufeff\n {\"unknown\": [{\"a\":[1,2.5e3,{}]}, \"\\\"}\", null] ,\n\"resource_spans\": [ {\"scope_spans\" :[{\"spans\":[ {" + `
		"trace_id":"0102030405060708090A0B0C0D0E0F10", "span_id" : "aaaaaaaaaaaaaaaa", "parent_span_id":"", "trace_state":null,
		"kind":"SPAN_KIND_SERVER", "start_time_unix_nano":17, "end_time_unix_nano":"1.7e18", "status":{"code":"STATUS_CODE_ERROR"},
		"flags":"257", "name":"\u0041\ud83d\ude00\ud83d\/\n", "more":{"name":"not this one"},
		"attributes":[{"key":"i","value":{"int_value":-5}},{"key":"d","value":{"doubleValue":"-Infinity"}},
			{"key":"e","value":{"doubleValue":1}},{"key":"n","value":{"stringValue":null}},{"key":"l","value":{"arrayValue":{"values":[{"boolValue":true},{}]}}},
			{"key":"b","value":{"bytesValue":"/w"}}]
		} ]}]}]}{"resourceMetrics":[{}]}
{"resourceLogs":[{"scopeLogs":[{"log_records":[{"severity_number":"SEVERITY_NUMBER_WARN2","event_name":"x"}]}]}]}`
	strict := `{"resourceSpans":[{"resource":{},"scopeSpans":[{"scope":{},"spans":[{"traceId":"0102030405060708090a0b0c0d0e0f10","spanId":"aaaaaaaaaaaaaaaa","flags":257,` +
		`"name":"A😀�/\n","kind":2,"startTimeUnixNano":"17","endTimeUnixNano":"1700000000000000000","attributes":[{"key":"i","value":{"intValue":"-5"}},` +
		`{"key":"d","value":{"doubleValue":"-Infinity"}},{"key":"e","value":{"doubleValue":1.0}},{"key":"n","value":{}},` +
		`{"key":"l","value":{"arrayValue":{"values":[{"boolValue":true},{}]}}},{"key":"b","value":{"bytesValue":"/w=="}}],"status":{"code":2}}]}]}]}
{"resourceLogs":[{"resource":{},"scopeLogs":[{"scope":{},"logRecords":[{"severityNumber":14,"eventName":"x"}]}]}]}
`
	if got := string(encode(t, mustDecode(t, strings.NewReader(loose)), nil)); got != strict {
		t.Errorf("got  %s\nwant %s", got, strict)
	}
}

func TestDamage(t *testing.T) {
	good := spans(span("A", spanA, ""), span("B", spanB, spanC)) // the message that has C comes later and is damaged
	bad := func(s string) string {
		return strings.Replace(spans(span("C", spanC, spanA)), `"startTimeUnixNano":"5"`, s, 1)
	}
	tests := []struct {
		name, in string
		at       string // the text at the offset in the error
		err      error
	}{
		{"id", bad(`"parentSpanId":"12"`), `"12"`, codec.ErrID},
		{"hex", bad(`"parentSpanId":"aaaaaaaaaaaaaaag"`), `"aaaaaaaaaaaaaaag"`, codec.ErrID},
		{"number", bad(`"startTimeUnixNano":"18446744073709551616"`), `"18446744073709551616"`, codec.ErrNumber},
		{"negative", bad(`"startTimeUnixNano":-1`), `-1`, codec.ErrNumber},
		{"enum", bad(`"kind":"SPAN_KIND_X"`), `"SPAN_KIND_X"`, codec.ErrEnum},
		{"base64", bad(`"attributes":[{"value":{"bytesValue":"&"}}]`), `"&"`, codec.ErrBase64},
		{"kind of value", bad(`"name":5`), `5`, codec.ErrSyntax},
		{"control character", bad("\"name\":\"a\nb\""), "\nb", codec.ErrSyntax},
		{"escape", bad(`"name":"\x"`), `x"`, codec.ErrSyntax},
		{"brace", bad(`"attributes":[{}}`), `}`, codec.ErrSyntax},
		{"no colon", bad(`"name" "x"`), `"x"`, codec.ErrSyntax},
		{"deep", bad(`"attributes":[{"value":` + strings.Repeat(`{"arrayValue":{"values":[`, 102) + strings.Repeat("]}}", 102) + `}]`), "{", codec.ErrDeep},
		{"many", bad(`"attributes":[` + strings.Repeat("{},", 1<<16) + "{}]"), "{}]", format.ErrTooLarge},
		{"large", bad(`"name":"` + strings.Repeat("x", 32<<20) + `"`), `{"traceId"`, format.ErrTooLarge},
		{"no OTLP", "\n5\n", "", codec.ErrSyntax},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			in := good + test.in + spans(span("D", "dddddddddddddddd", ""))
			v, err := decode(t, strings.NewReader(in))
			damage, ok := errors.AsType[*input.Error](err)
			if !ok || !errors.Is(err, test.err) || damage.Unit != "message 2" && damage.Unit != "message 3" {
				t.Fatalf("the error is %v, want %v", err, test.err)
			}
			if at := in[damage.Offset:]; !strings.HasPrefix(at, test.at) {
				t.Errorf("%v: that is at %.30q, want %q", err, at, test.at)
			}
			if got := tree(v); !strings.Contains(got, "    A\n") || !strings.Contains(got, "    B\n") || !strings.Contains(got, "    D\n") {
				t.Errorf("the tree is\n%s", got)
			}
		})
	}
	for _, in := range []string{"x", "[]", "\x00\x00\x00\x05hello", "PAR1", "\xff\xff\xff\xff\xff"} {
		expect.Is(t, expect.Err(decode(t, strings.NewReader(in))), otlp.ErrNotOTLP, "%q: the error", in)
	}
}

// TestDecodeFindsMessageBehindACut cuts a message at many places, and writes the next message after it on the same
// line or on the next line, as a writer does that was killed and started again. The next message and the last message
// must be decoded once, and the damage must be reported.
func TestDecodeFindsMessageBehindACut(t *testing.T) {
	cut := strings.TrimSuffix(spans(span("A", spanA, "")), "\n")
	wrapped := `{"trace":` + cut + "}"
	for end, whole := range map[string]string{"": cut, "\n": wrapped} {
		for n := 2; n < len(whole)-1; n += 3 {
			v, err := decode(t, strings.NewReader(whole[:n]+end+spans(span("B", spanB, ""))+spans(span("C", spanC, ""))))
			if damage, ok := errors.AsType[*input.Error](err); !ok || damage.Unit != "message 1" {
				t.Fatalf("%q, then %q: the error is %v", whole[:n], end, err)
			}
			var got strings.Builder
			for r := range v.Rows() {
				if v.Role(r) == view.RoleSpan {
					got.WriteString(v.Name(r))
				}
			}
			if strings.TrimPrefix(got.String(), "A") != "BC" {
				t.Fatalf("%q, then %q: it has %s, want B and C", whole[:n], end, got.String())
			}
		}
	}
}

// TestDamageKeepsOtherMessages damages one message. All other messages must be decoded, and the records before the
// damage.
func TestDamageKeepsOtherMessages(t *testing.T) {
	first, last := spans(span("A", spanA, "")), spans(span("D", "dddddddddddddddd", ""))
	twoGroups := strings.TrimSuffix(spans(span("B", spanB, "")), "]}\n") + "," + strings.TrimPrefix(spans(span("C", spanC, "")), `{"resourceSpans":[`)
	frame := func(in string) []byte {
		return encode(t, mustDecode(t, strings.NewReader(in)), &otlp.EncodeOptions{Protobuf: true})
	}
	middle := slices.Concat(frame(spans(span("B", spanB, "")))[4:], frame(spans(span("C", spanC, "")))[4:])
	inFrame := func(b []byte) []byte { return append(binary.BigEndian.AppendUint32(nil, uint32(len(b))), b...) }
	wrong := bytes.Replace(middle, bytes.Repeat([]byte{0xcc}, 8), []byte("\xcc\xcc\xcc\xcc\xcc\xcc\xcc\xff"), 1)
	wrong[bytes.LastIndex(wrong, []byte("\x22\x00"))] = 0x23 // begins a group, which OTLP does not use
	tests := []struct {
		name string
		in   []byte
		err  error
		unit string
		want string
	}{
		{"JSON that stops", []byte(first + strings.TrimSuffix(twoGroups, "}]}]}]}\n") + "\n" + last), codec.ErrSyntax, "message 2", "ABD"},
		{"pretty JSON", []byte("{\n  \"resourceSpans\": [\n    5\n  ]\n}\n" + first + last), codec.ErrSyntax, "message 1", "AD"},
		{"a wrong id", []byte(first + strings.Replace(twoGroups, spanB, "b", 1) + last), codec.ErrID, "message 2", "ACD"},
		{"a wrong resource", []byte(first + strings.Replace(twoGroups, `{"stringValue":"h"}`, `{"intValue":"h"}`, 1) + last), codec.ErrNumber, "message 2", "ACD"},
		{"a frame", slices.Concat(frame(first), inFrame(wrong), frame(last)), codec.ErrField, "message 2", "ABD"},
		{"a frame that stops", slices.Concat(frame(first), inFrame(middle[:len(middle)-9]), frame(last)), codec.ErrField, "message 2", "ABD"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			v, err := decode(t, bytes.NewReader(test.in))
			damage, ok := errors.AsType[*input.Error](err)
			if !ok || !errors.Is(err, test.err) || damage.Unit != test.unit {
				t.Errorf("the error is %v, want %v in %s", err, test.err, test.unit)
			}
			var got strings.Builder
			for r := range v.Rows() {
				if v.Role(r) == view.RoleSpan {
					e, err := v.Entry(r)
					must(t, err)
					got.WriteString(e.Metadata.Name)
				}
			}
			expect.Equal(t, got.String(), test.want, "it has")
		})
	}
}

// TestCut cuts inputs after every byte. Everything before the cut must be decoded.
func TestCut(t *testing.T) {
	text := spans(span("A", spanA, spanB), span("B", spanB, "")) + logs(`{"body":{"stringValue":"x"}}`)
	frames := encode(t, mustDecode(t, strings.NewReader(text)), &otlp.EncodeOptions{Protobuf: true})
	for name, in := range map[string][]byte{"json": []byte(text), "framed": frames} {
		t.Run(name, func(t *testing.T) {
			last, whole := 0, 0
			for n := range len(in) + 1 {
				var b bytes.Buffer
				w, err := format.NewWriter(&b, 0, format.IET, nil)
				must(t, err)
				err = otlp.Decode(t.Context(), bytes.NewReader(in[:n]), w, nil)
				if err != nil && !errors.Is(err, format.ErrTruncated) {
					t.Fatalf("cut at %d of %d: %v", n, len(in), err)
				}
				if err == nil {
					whole++
				}
				must(t, w.Close())
				count := 0
				for r, err := format.NewReader(&b, nil); err == nil; count++ {
					_, err = r.Next()
				}
				if count < last {
					t.Fatalf("cut at %d there are %d entries, %d before", n, count, last)
				}
				last = count
			}
			// A cut between messages is no error. In JSON, it may be before or after the newline.
			if want := map[string]int{"json": 5, "framed": 3}[name]; whole != want {
				t.Errorf("%d cuts are no error, want %d", whole, want)
			}
		})
	}
	one := encode(t, mustDecode(t, strings.NewReader(spans(span("A", spanA, ""), span("B", spanB, "")))), &otlp.EncodeOptions{Protobuf: true})[4:]
	for n := range len(one) {
		v, err := decode(t, bytes.NewReader(one[:n]))
		if n > 1 && !errors.Is(err, format.ErrTruncated) {
			t.Errorf("bare message cut at %d: %v", n, err)
		}
		if got, want := n > 1 && strings.Contains(tree(v), "    A\n"), bytes.Contains(one[:n], bytes.Repeat([]byte{0xbb}, 8)); want && !got {
			t.Errorf("bare message cut at %d, in its second span: the first is gone", n)
		}
	}
}

func TestContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	w, err := format.NewWriter(io.Discard, 0, format.IET, nil)
	must(t, err)
	expect.Is(t, otlp.Decode(ctx, strings.NewReader(spans()), w, nil), context.Canceled, "Decode")
	expect.Is(t, otlp.Encode(ctx, io.Discard, mustDecode(t, strings.NewReader(spans())), nil), context.Canceled, "Encode")
}

func TestBatches(t *testing.T) {
	var items []string
	for i := range 1100 {
		items = append(items, span("A", fmt.Sprintf("%016x", i+1), ""))
	}
	out := encode(t, mustDecode(t, strings.NewReader(spans(items...))), nil)
	var counts []int
	for line := range bytes.Lines(out) {
		counts = append(counts, bytes.Count(line, []byte(`"spanId"`)))
	}
	expect.Slice(t, counts, []int{512, 512, 76}, "spans of the lines")
}

// TestSentTwice decodes two spans with the same ids, both of which were sent twice. Each span must become one row.
func TestSentTwice(t *testing.T) {
	b := span("B", spanB, spanA)
	one := spans(span("A", spanA, ""), b)
	other := spans(strings.Replace(b, `"5"`, `"8"`, 1))
	want := "root\n  resource\n    A\n      B\n      B\n"
	expect.Equal(t, tree(mustDecode(t, strings.NewReader(one+one+other+other))), want, "the tree")
}

// TestEncodeRows encodes some rows, in the given order.
func TestEncodeRows(t *testing.T) {
	v := mustDecode(t, strings.NewReader(`{"resourceSpans":[{"scopeSpans":[{"spans":[`+
		`{"traceId":"0102030405060708090a0b0c0d0e0f10","spanId":"0000000000000001","name":"a"},`+
		`{"traceId":"0102030405060708090a0b0c0d0e0f10","spanId":"0000000000000002","name":"b"},`+
		`{"traceId":"0102030405060708090a0b0c0d0e0f10","spanId":"0000000000000003","name":"c"}]}]}]}`))
	var rows []view.Row
	for r := range v.Rows() {
		if v.Role(r) == view.RoleSpan && v.Name(r) != "b" {
			rows = append(rows, r)
		}
	}
	var out strings.Builder
	must(t, otlp.Encode(t.Context(), &out, v, &otlp.EncodeOptions{Rows: slices.Values([]view.Row{rows[1], rows[0]})}))
	got := out.String()
	if c, a := strings.Index(got, `"name":"c"`), strings.Index(got, `"name":"a"`); c < 0 || a < c || strings.Contains(got, `"name":"b"`) {
		t.Errorf("it writes %s", got)
	}
}
