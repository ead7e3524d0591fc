package heph

import (
	"bytes"
	"io"
	"testing"

	"github.com/entrace-go/entrace/format"
	"github.com/entrace-go/entrace/internal/testkit/converttest"
)

// foreignPackets returns packets as Heph writes them, on several lanes, with children before parents.
func foreignPackets(n int) []byte {
	b := appendEpoch(nil, 1<<60)
	for i := range n {
		start, end := uint64(100*(i-i%8)), uint64(100*(i+1))
		b = appendEvent(b, &event{
			StreamID: 1, Counter: uint32(i), SubstreamID: uint64(i % 8 / 4), Start: start, End: end, Description: "running actor",
			Attributes: []attribute{
				{Name: "id", Value: u64Value(uint64(i))}, {Name: "name", Value: stringValue("http::conn")}, {Name: "zone", Value: i64Value(-1)},
			},
		})
	}
	return b
}

func BenchmarkDecode(b *testing.B) {
	in := foreignPackets(20000)
	b.ReportAllocs()
	b.SetBytes(int64(len(in)))
	for b.Loop() {
		w, err := format.NewWriter(io.Discard, format.V2, format.IET, nil)
		converttest.Must(b, err)
		converttest.Must(b, Decode(b.Context(), bytes.NewReader(in), w))
		converttest.Must(b, w.Close())
	}
}

func BenchmarkReader(b *testing.B) {
	in := foreignPackets(20000)
	b.ReportAllocs()
	b.SetBytes(int64(len(in)))
	for b.Loop() {
		for r := (&reader{b: in}); r.more(); {
			if _, err := r.next(); err != nil {
				b.Fatal(err)
			}
		}
	}
}
