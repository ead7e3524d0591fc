package heph

import (
	"bytes"
	"context"
	"encoding/binary"
	"io"
	"math"
	"os"
	"path/filepath"
	"testing"

	"github.com/entrace-go/entrace/convert/otlp"
	"github.com/entrace-go/entrace/format"
	"github.com/entrace-go/entrace/internal/read/entryjson"
	"github.com/entrace-go/entrace/internal/testkit/converttest"
	"github.com/entrace-go/entrace/internal/testkit/tracetest"
	"github.com/entrace-go/entrace/view"
)

var open = converttest.Read

// toOTLP decodes packets, and encodes the trace as OTLP.
var toOTLP = converttest.Format{
	Decode: Decode,
	Encode: func(ctx context.Context, w io.Writer, v *view.View) error { return otlp.Encode(ctx, w, v, nil) },
}

var read = tracetest.ReadFile

// samples returns the names of all sample files.
func samples(t testing.TB) []string {
	t.Helper()
	var names []string
	for _, dir := range []string{"testdata", filepath.Join(os.Getenv("ENTRACE_SAMPLES"), "heph")} {
		for _, pattern := range []string{"*.htf", "*.bin"} {
			found, err := filepath.Glob(filepath.Join(dir, pattern))
			converttest.Must(t, err)
			names = append(names, found...)
		}
	}
	return names
}

// decoded decodes packets to a trace.
func decoded(t testing.TB, in []byte, version format.Version) (*view.View, error) {
	t.Helper()
	out, err := toOTLP.Back(t.Context(), t, bytes.NewReader(in), version)
	return open(t, out), err
}

// text returns a trace as JSON lines.
func text(t testing.TB, v *view.View) string {
	t.Helper()
	var b []byte
	converttest.Must(t, v.Files()[0].Walk(0, func(id uint32, e *format.TraceEntry) error {
		b = append(entryjson.Append(b, int64(id), e), '\n')
		return nil
	}))
	return string(b)
}

// The functions below make packets, as the document of the format describes them.

// appendEpoch appends a metadata packet that sets the epoch, in nanoseconds since 1970.
func appendEpoch(b []byte, unixNano uint64) []byte {
	return appendOption(b, &option{Name: nameEpoch, Value: binary.BigEndian.AppendUint64(nil, unixNano)})
}

// appendOption appends the metadata packet of o.
func appendOption(b []byte, o *option) []byte {
	return appendPacket(b, magicMetadata, append(appendString(nil, o.Name), o.Value...))
}

// appendEvent appends the packet of e.
func appendEvent(b []byte, e *event) []byte {
	body := binary.BigEndian.AppendUint32(nil, e.StreamID)
	body = binary.BigEndian.AppendUint32(body, e.Counter)
	for _, n := range []uint64{e.SubstreamID, e.Start, e.End} {
		body = binary.BigEndian.AppendUint64(body, n)
	}
	body = appendString(body, e.Description)
	for i := range e.Attributes {
		a := &e.Attributes[i]
		body = append(appendString(body, a.Name), byte(a.Value.typ))
		switch {
		case a.Value.typ&kindArray != 0:
			body = append(binary.BigEndian.AppendUint16(body, uint16(a.Value.num)), a.Value.text...)
		case a.Value.typ == kindString:
			body = appendString(body, a.Value.text)
		default:
			body = binary.BigEndian.AppendUint64(body, a.Value.num)
		}
	}
	return appendPacket(b, magicEvent, body)
}

func appendPacket(b []byte, magic uint32, body []byte) []byte {
	b = binary.BigEndian.AppendUint32(b, magic)
	b = binary.BigEndian.AppendUint32(b, uint32(headSize+len(body)))
	return append(b, body...)
}

// appendString appends a text of at most 65,535 bytes.
func appendString(b []byte, s string) []byte {
	return append(binary.BigEndian.AppendUint16(b, uint16(len(s))), s...)
}

func u64Value(n uint64) value    { return value{typ: kindU64, num: n} }
func i64Value(n int64) value     { return value{typ: kindI64, num: uint64(n)} }
func f64Value(f float64) value   { return value{typ: kindF64, num: math.Float64bits(f)} }
func stringValue(s string) value { return value{typ: kindString, text: s} }

// arrayOf returns an array of values of one type.
func arrayOf(typ valueType, items ...value) value {
	var b []byte
	for _, v := range items {
		if typ == kindString {
			b = appendString(b, v.text)
		} else {
			b = binary.BigEndian.AppendUint64(b, v.num)
		}
	}
	return value{typ: typ | kindArray, num: uint64(len(items)), text: string(b)}
}
