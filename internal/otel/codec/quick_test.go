package codec

import (
	"testing"

	"github.com/entrace-go/entrace/internal/otel"
	"github.com/entrace-go/entrace/internal/testkit/expect"
)

// TestQuickAttributesAreAsOthers checks that quickAttribute reads the same attribute as the general code, and ends
// at the same offset, for intact and for damaged input.
func TestQuickAttributesAreAsOthers(t *testing.T) {
	const quick = 5 // the number of samples that quickAttribute can read
	pair := appendPair(nil, "name", &otel.Any{Kind: otel.String, Text: "the value first"})
	key, value := pair[:6], pair[6:]
	samples := [][]byte{
		sized(appendPair(nil, "name", &otel.Any{Kind: otel.String, Text: "text ü"})),
		sized(appendPair(nil, "name", &otel.Any{Kind: otel.Bool, Bool: true})),
		sized(appendPair(nil, "name", &otel.Any{Kind: otel.Int, Int: -1})),
		sized(appendPair(nil, "name", &otel.Any{Kind: otel.Int, Int: 200})),
		sized(append(append([]byte(nil), value...), key...)),
		sized(appendPair(nil, "name", &otel.Any{Kind: otel.Float, Float: 0.5})),
		sized(appendPair(nil, "name", &otel.Any{Kind: otel.Bytes, Text: "\xff"})),
		sized(appendPair(nil, "name", &otel.Any{Kind: otel.List, List: []otel.Any{{Kind: otel.Int, Int: 1}}})),
		sized(appendPair(nil, "name", &otel.Any{})),
		sized(nil),
	}
	compare := func(b []byte) (took bool) {
		fast := &fieldReader{b: b, end: len(b), kind: 2}
		got, took := fast.quickAttribute()
		if !took {
			if fast.i != 0 || fast.err != nil {
				t.Errorf("%x: it moves though it reads nothing", b)
			}
			return false
		}
		r := NewReader(b, Protobuf)
		r.seek(0)
		var kv otel.KeyValue
		r.pair(&kv, 0)
		want := otel.NewAttribute(kv.Key, &kv.Value)
		if end := r.in.offset(); r.in.failure() != nil || got.Name != want.Name || !got.Value.Equal(want.Value) || int64(fast.i) != end {
			t.Errorf("%x: it reads %+v to %d, the other way reads %+v to %d", b, got, fast.i, want, end)
		}
		return true
	}
	for i, b := range samples {
		expect.Equal(t, compare(b), i < quick, "%x: read the faster way", b)
		for at := range b {
			compare(b[:at])
			for c := range 256 {
				changed := append([]byte(nil), b...)
				changed[at] = byte(c)
				compare(changed)
			}
		}
	}
}

func sized(fields []byte) []byte { return append([]byte{byte(len(fields))}, fields...) }
