package otlp_test

import (
	"bytes"
	"io"
	"testing"

	"github.com/entrace-go/entrace/convert/otlp"
	"github.com/entrace-go/entrace/format"
)

func BenchmarkDecode(b *testing.B) {
	for _, name := range []string{"collector-traces.jsonl", "collector-traces.binpb", "collector-logs.jsonl", "collector-logs.binpb"} {
		b.Run(name, func(b *testing.B) {
			in := bytes.Repeat(fixture(b, name), 20)
			b.SetBytes(int64(len(in)))
			b.ReportAllocs()
			for b.Loop() {
				w, err := format.NewWriter(io.Discard, 0, format.IET, nil)
				must(b, err)
				must(b, otlp.Decode(b.Context(), bytes.NewReader(in), w, nil))
				must(b, w.Close())
			}
		})
	}
}

func BenchmarkEncode(b *testing.B) {
	v := mustDecode(b, bytes.NewReader(bytes.Repeat(fixture(b, "collector-traces.jsonl"), 20)))
	for name, o := range map[string]*otlp.EncodeOptions{"json": {}, "protobuf": {Protobuf: true}} {
		b.Run(name, func(b *testing.B) {
			b.SetBytes(int64(len(encode(b, v, o))))
			b.ReportAllocs()
			for b.Loop() {
				must(b, otlp.Encode(b.Context(), io.Discard, v, o))
			}
		})
	}
}
