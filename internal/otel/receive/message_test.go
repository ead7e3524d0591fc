package receive_test

import (
	"bytes"
	"encoding/binary"
	"testing"

	"github.com/klauspost/compress/gzip"
	"google.golang.org/protobuf/encoding/protowire"

	"github.com/entrace-go/entrace/internal/testkit/expect"
)

// message returns a protobuf message. The parameter fields has pairs of a field number and a value.
func message(fields ...any) []byte {
	var b []byte
	for i := 0; i < len(fields); i += 2 {
		n := protowire.Number(fields[i].(int))
		switch v := fields[i+1].(type) {
		case int:
			b = protowire.AppendVarint(protowire.AppendTag(b, n, protowire.VarintType), uint64(v))
		case uint64:
			b = protowire.AppendFixed64(protowire.AppendTag(b, n, protowire.Fixed64Type), v)
		case string:
			b = protowire.AppendString(protowire.AppendTag(b, n, protowire.BytesType), v)
		case []byte:
			b = protowire.AppendBytes(protowire.AppendTag(b, n, protowire.BytesType), v)
		}
	}
	return b
}

// parse returns the fields of a message by number. Of a repeated field it returns the last.
func parse(t *testing.T, b []byte) map[protowire.Number]any {
	t.Helper()
	fields := make(map[protowire.Number]any)
	for len(b) > 0 {
		n, kind, size := protowire.ConsumeTag(b)
		if size < 0 {
			t.Fatalf("not protobuf: %x", b)
		}
		b = b[size:]
		var v any
		switch kind {
		case protowire.VarintType:
			v, size = protowire.ConsumeVarint(b)
		case protowire.BytesType:
			var s []byte
			s, size = protowire.ConsumeBytes(b)
			v = string(s)
		default:
			t.Fatalf("field %d has type %d", n, kind)
		}
		if size < 0 {
			t.Fatalf("not protobuf: %x", b)
		}
		fields[n], b = v, b[size:]
	}
	return fields
}

const begun = uint64(1_790_000_000_000_000_000)

func text(key, value string) []byte { return message(1, key, 2, message(1, value)) }

func resource(service string) []byte { return message(1, text("service.name", service)) }

// id returns an id of size bytes. It is zero only if n is 0.
func id(size, n int) []byte {
	b := make([]byte, size)
	binary.BigEndian.PutUint64(b[size-8:], uint64(n))
	return b
}

// span returns span n of trace 1. If parent is 0, it has no parent. The parameter more has further fields, as for
// message.
func span(n, parent int, name string, more ...any) []byte {
	fields := []any{1, id(16, 1), 2, id(8, n), 5, name, 7, begun + uint64(n)*1000, 8, begun + uint64(n)*1000 + 500}
	if parent != 0 {
		fields = append(fields, 4, id(8, parent))
	}
	return message(append(fields, more...)...)
}

func logRecord(body string, more ...any) []byte {
	return message(append([]any{1, begun, 2, 9, 5, message(1, body)}, more...)...)
}

// request returns a request of one resource and one scope.
func request(service string, records ...[]byte) []byte {
	var fields []any
	for _, r := range records {
		fields = append(fields, 2, r)
	}
	return message(1, message(1, resource(service), 2, message(fields...)))
}

func zipped(t testing.TB, b []byte) []byte {
	t.Helper()
	var out bytes.Buffer
	z := gzip.NewWriter(&out)
	must(t, expect.Err(z.Write(b)))
	must(t, z.Close())
	return out.Bytes()
}

// framed returns b as a message of a gRPC call.
func framed(flag byte, b []byte) []byte {
	return append(binary.BigEndian.AppendUint32([]byte{flag}, uint32(len(b))), b...)
}
