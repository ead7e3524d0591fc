package measureme

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"strconv"
	"testing"

	"github.com/entrace-go/entrace/internal/testkit/tracetest"

	"github.com/entrace-go/entrace/format"
)

var must = tracetest.Must

// profile returns a profile of n spans in groups of ten. Each span has an argument.
func profile(t testing.TB, n int) []byte {
	t.Helper()
	return converter.Bytes(t, build(t, func(w *tree) {
		span := func(parent uint32, name string, arg int, start, end uint64) uint32 {
			return w.put(tracetest.Entry(name,
				format.AttrDuration, end-start,
				attrArg+"0", "key "+strconv.Itoa(arg),
				attrKind, "Query",
				attrMadeIDs, true,
				format.AttrSpanID, fmt.Sprintf("%016x", start+1),
				attrThread, uint64(1),
				format.AttrTime, 1_700_000_000_000_000_000+start,
			), parent)
		}
		for i := range n / 10 {
			at := uint64(i) * 1000
			parent := span(0, "typeck", 0, at, at+990)
			for k := range uint64(9) {
				span(parent, "type_of", i%500, at+k*100+10, at+k*100+60)
			}
		}
	}))
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

func BenchmarkEncode(b *testing.B) {
	v := mustDecode(b, profile(b, 100_000))
	b.SetBytes(v.Files()[0].Size())
	b.ReportAllocs()
	for b.Loop() {
		must(b, Encode(context.Background(), io.Discard, v))
	}
}
