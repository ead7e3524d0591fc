package measureme

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"testing"

	"github.com/entrace-go/entrace/format"
)

// profile returns a profile of n intervals in groups of ten: one contains the others. Each has an argument.
func profile(t testing.TB, n int) []byte {
	t.Helper()
	p := parts{meta: plain, data: "Query\xfftypeck\x1ekey 0\xff"}
	const kind, outer = 0, len("Query\xff")
	var inner []uint64
	for i := range 500 {
		inner = append(inner, id(len(p.data)))
		p.data += fmt.Sprintf("type_of\x1ekey %d\xff", i)
	}
	for i := range n / 10 {
		at := uint64(i) * 1000
		for k := range uint64(9) {
			p.events = append(p.events, interval(id(kind), inner[i%len(inner)], at+k*100+10, at+k*100+60))
		}
		p.events = append(p.events, interval(id(kind), id(outer), at, at+990))
	}
	return p.file(t)
}

func BenchmarkDecode(b *testing.B) {
	p := profile(b, 100_000)
	b.SetBytes(int64(len(p)))
	b.ReportAllocs()
	for b.Loop() {
		w, err := format.NewWriter(io.Discard, format.V2, format.IET, nil)
		must(b, err)
		must(b, Decode(context.Background(), bytes.NewReader(p), w))
		must(b, w.Close())
	}
}
