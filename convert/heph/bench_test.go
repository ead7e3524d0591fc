package heph_test

import (
	"bytes"
	"fmt"
	"io"
	"testing"

	"github.com/entrace-go/entrace/convert/heph"
	"github.com/entrace-go/entrace/format"
	"github.com/entrace-go/entrace/view"
)

// foreign returns packets as Heph writes them: children before parents, in lanes.
func foreign(n int) []byte {
	b := heph.AppendEpoch(nil, 1<<60)
	for i := range n {
		start, end := uint64(100*(i-i%8)), uint64(100*(i+1))
		b = heph.AppendEvent(b, &heph.Event{
			StreamID: 1, Counter: uint32(i), SubstreamID: uint64(i % 8 / 4), Start: start, End: end, Description: "running actor",
			Attributes: []heph.Attribute{
				{Name: "id", Value: heph.U64(uint64(i))}, {Name: "name", Value: heph.String("http::conn")}, {Name: "zone", Value: heph.I64(-1)},
			},
		})
	}
	return b
}

// spans returns a trace of n spans with attributes.
func spans(t testing.TB, n int) *view.View {
	list := []*format.TraceEntry{format.Root(), {Metadata: format.Metadata{Name: "resource", Level: format.LevelInfo}}}
	for i := range n {
		e := &format.TraceEntry{Parent: 1, Metadata: format.Metadata{Name: "GET /cart", Target: "shop", Level: format.LevelInfo}, Attributes: []format.Attribute{
			attr("duration_nano", format.U64Value(900)), attr("http.method", format.StringValue("GET")), attr("http.status", format.I64Value(200)),
			attr("retry", format.BoolValue(i%2 == 0)), attr("span_id", format.StringValue(fmt.Sprintf("%016x", i+1))),
			attr("time_unix_nano", format.U64Value(1e18+100*uint64(i))),
		}}
		if i%8 == 0 {
			e.Attributes = append(e.Attributes, attr("trace_id", format.StringValue(fmt.Sprintf("%032x", i+1))))
		} else {
			e.Parent = uint32(i - i%8 + 2)
		}
		list = append(list, e)
	}
	return write(t, list...)
}

func BenchmarkDecode(b *testing.B) {
	for name, in := range map[string][]byte{"foreign": foreign(20000), "encoded": encode(b, spans(b, 20000))} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			b.SetBytes(int64(len(in)))
			for b.Loop() {
				w, err := format.NewWriter(io.Discard, format.V2, format.IET, nil)
				must(b, err)
				must(b, heph.Decode(b.Context(), bytes.NewReader(in), w, nil))
				must(b, w.Close())
			}
		})
	}
}

func BenchmarkEncode(b *testing.B) {
	back, err := decode(b, foreign(20000), format.V2)
	must(b, err)
	for name, v := range map[string]*view.View{"foreign": back, "spans": spans(b, 20000)} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			b.SetBytes(int64(len(encode(b, v))))
			for b.Loop() {
				must(b, heph.Encode(b.Context(), io.Discard, v, nil))
			}
		})
	}
}

func BenchmarkReader(b *testing.B) {
	in := foreign(20000)
	b.ReportAllocs()
	b.SetBytes(int64(len(in)))
	for b.Loop() {
		r := heph.NewReader(bytes.NewReader(in))
		for {
			if _, err := r.Next(); err != nil {
				break
			}
		}
	}
}

func BenchmarkAppendEvent(b *testing.B) {
	e := &heph.Event{Description: "running actor", Attributes: []heph.Attribute{{Name: "id", Value: heph.U64(1)}, {Name: "name", Value: heph.String("x")}}}
	buf := heph.AppendEvent(nil, e)
	b.ReportAllocs()
	b.SetBytes(int64(len(buf)))
	for b.Loop() {
		buf = heph.AppendEvent(buf[:0], e)
	}
}
