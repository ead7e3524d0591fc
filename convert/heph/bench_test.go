package heph

import (
	"bytes"
	"fmt"
	"io"
	"testing"

	"github.com/entrace-go/entrace/convert/internal/converttest"
	"github.com/entrace-go/entrace/format"
	"github.com/entrace-go/entrace/internal/testkit/tracetest"
	"github.com/entrace-go/entrace/view"
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

// spans returns a trace of n spans with attributes.
func spans(t testing.TB, n int) *view.View {
	list := []*format.TraceEntry{format.Root(), {Metadata: format.Metadata{Name: "resource", Level: format.LevelInfo}}}
	for i := range n {
		e := &format.TraceEntry{Parent: 1, Metadata: format.Metadata{Name: "GET /cart", Target: "shop", Level: format.LevelInfo}, Attributes: tracetest.Attributes(
			"duration_nano", uint64(900), "http.method", "GET", "http.status", 200,
			"retry", i%2 == 0, "span_id", fmt.Sprintf("%016x", i+1),
			"time_unix_nano", 1e18+100*uint64(i),
		)}
		if i%8 == 0 {
			e.Add("trace_id", format.StringValue(fmt.Sprintf("%032x", i+1)))
		} else {
			e.Parent = uint32(i - i%8 + 2)
		}
		list = append(list, e)
	}
	return converttest.View(t, list...)
}

func BenchmarkDecode(b *testing.B) {
	for name, in := range map[string][]byte{"foreign": foreignPackets(20000), "encoded": converter.Bytes(b, spans(b, 20000))} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			b.SetBytes(int64(len(in)))
			for b.Loop() {
				w, err := format.NewWriter(io.Discard, format.V2, format.IET, nil)
				converttest.Must(b, err)
				converttest.Must(b, Decode(b.Context(), bytes.NewReader(in), w))
				converttest.Must(b, w.Close())
			}
		})
	}
}

func BenchmarkEncode(b *testing.B) {
	back, err := decoded(b, foreignPackets(20000), format.V2)
	converttest.Must(b, err)
	for name, v := range map[string]*view.View{"foreign": back, "spans": spans(b, 20000)} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			b.SetBytes(int64(len(converter.Bytes(b, v))))
			for b.Loop() {
				converttest.Must(b, Encode(b.Context(), io.Discard, v))
			}
		})
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
