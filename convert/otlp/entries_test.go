package otlp_test

import (
	"bytes"
	"encoding/binary"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/entrace-go/entrace/convert/otlp"
	"github.com/entrace-go/entrace/format"
)

// field returns a field of protobuf that has a length.
func field(number protowire.Number, content ...[]byte) []byte {
	return protowire.AppendBytes(protowire.AppendTag(nil, number, protowire.BytesType), slices.Concat(content...))
}

// TestNotUTF8 reads texts that are not UTF-8, which protobuf lets pass.
func TestNotUTF8(t *testing.T) {
	bad := []byte("a\xff\xfeb")
	text := field(1, bad)
	attr := field(9, field(1, bad), field(2, text))
	list := field(9, field(1, []byte("list")), field(2, field(5, field(1, text), field(1, field(7, bad)))))
	sp := field(2, field(1, bytes.Repeat([]byte{1}, 16)), field(2, bytes.Repeat([]byte{2}, 8)), field(5, bad), attr, list)
	in := field(1, field(2, sp))
	got := string(encode(t, mustDecode(t, bytes.NewReader(in)), nil))
	want := `"name":"a��b","attributes":[{"key":"a��b","value":{"bytesValue":"Yf/+Yg=="}},` +
		`{"key":"list","value":{"arrayValue":{"values":[{"bytesValue":"Yf/+Yg=="},{"bytesValue":"Yf/+Yg=="}]}}}]`
	if want = strings.ReplaceAll(want, `\ufffd`, "\ufffd"); !strings.Contains(got, want) {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

// TestNaNBits keeps the bits of a NaN in protobuf, where there is room for them.
func TestNaNBits(t *testing.T) {
	const bits = 0x7ff8_0000_dead_beef
	number := binary.LittleEndian.AppendUint64(protowire.AppendTag(nil, 4, protowire.Fixed64Type), bits)
	attr := field(9, field(1, []byte("n")), field(2, number))
	in := field(1, field(2, field(2, field(1, bytes.Repeat([]byte{1}, 16)), field(2, bytes.Repeat([]byte{2}, 8)), attr)))
	got := encode(t, mustDecode(t, bytes.NewReader(in)), &otlp.EncodeOptions{Protobuf: true})
	if !bytes.Contains(got, number) {
		t.Errorf("%x has lost %x", got, number)
	}
}

// TestEntries encodes entries that did not come from OTLP.
func TestEntries(t *testing.T) {
	name := filepath.Join(t.TempDir(), "x.iet")
	out, err := os.Create(name)
	if err != nil {
		t.Fatal(err)
	}
	defer out.Close()
	w, err := format.NewWriter(out, 0, format.IET, nil)
	if err != nil {
		t.Fatal(err)
	}
	text := func(name, value string) format.Attribute {
		return format.Attribute{Name: name, Value: format.StringValue(value)}
	}
	entries := []*format.TraceEntry{
		format.Root(),
		{
			Metadata: format.Metadata{Name: "live", Target: "scope"},
			Attributes: []format.Attribute{
				text("trace_id", "0102030405060708090a0b0c0d0e0f10"), text("span_id", spanA),
				{Name: "time_unix_nano", Value: format.U64Value(1)},
				{Name: "large", Value: format.U64Value(1 << 63)},
			},
		},
		{
			Parent: 1, Message: format.Some("hello"),
			Metadata:   format.Metadata{Name: "event cart.go:7", Target: "shop", Level: format.LevelWarn, File: format.Some("/src/cart.go"), Line: format.Some[uint32](7)},
			Attributes: []format.Attribute{{Name: "time_unix_nano", Value: format.U64Value(2)}},
		},
		{Parent: 1, Metadata: format.Metadata{Name: "span end"}, Attributes: []format.Attribute{
			text("span_id", spanA), {Name: "duration_nano", Value: format.U64Value(9)}, text("otel.status_code", "ERROR"),
		}},
		{Parent: 1, Metadata: format.Metadata{Name: "of another program"}},
	}
	for _, e := range entries {
		if _, err := w.Write(e); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	f, err := format.Open(name, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	v, err := format.NewView(f)
	if err != nil {
		t.Fatal(err)
	}
	want := `{"resourceSpans":[{"resource":{},"scopeSpans":[{"scope":{"name":"scope"},"spans":[{"traceId":"0102030405060708090a0b0c0d0e0f10","spanId":"aaaaaaaaaaaaaaaa",` +
		`"flags":257,"name":"live","kind":1,"startTimeUnixNano":"1","endTimeUnixNano":"10","attributes":[{"key":"large","value":{"stringValue":"9223372036854775808"}}],"status":{"code":2}}]}]}]}
{"resourceLogs":[{"resource":{},"scopeLogs":[{"scope":{"name":"shop"},"logRecords":[{"timeUnixNano":"2","severityNumber":13,"severityText":"WARN","body":{"stringValue":"hello"},` +
		`"attributes":[{"key":"code.file.path","value":{"stringValue":"/src/cart.go"}},{"key":"code.line.number","value":{"intValue":"7"}}],` +
		`"traceId":"0102030405060708090a0b0c0d0e0f10","spanId":"aaaaaaaaaaaaaaaa"}]}]}]}
`
	if got := string(encode(t, v, nil)); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}
