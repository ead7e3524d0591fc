package receive_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/entrace-go/entrace/internal/otlp/codec"
	"github.com/entrace-go/entrace/internal/receive"
)

// BenchmarkTake records requests of 512 spans of 5 attributes, as a sender has them.
func BenchmarkTake(b *testing.B) {
	f, err := receive.NewFiles(receive.FilesOptions{Dir: b.TempDir()})
	if err != nil {
		b.Fatal(err)
	}
	defer f.Close(context.Background())
	const spans = 512
	var records [][]byte
	for i := range spans {
		var attrs []any
		for j := range 5 {
			attrs = append(attrs, 9, text(fmt.Sprint("attribute.", j), fmt.Sprint("value ", i)))
		}
		records = append(records, span(spans-i, (spans-i)/2, "GET /orders", attrs...))
	}
	request := request("shop", records...)
	b.SetBytes(int64(len(request)))
	b.ReportAllocs()
	for b.Loop() {
		if _, err := f.Take(b.Context(), receive.Traces, codec.Protobuf, request); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(spans*b.N)/b.Elapsed().Seconds(), "spans/s")
}
