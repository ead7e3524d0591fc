package receive_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/entrace-go/entrace/internal/otel/codec"
	"github.com/entrace-go/entrace/internal/otel/receive"
	"github.com/entrace-go/entrace/internal/testkit/hosttest"
)

const manySpans = 512

// ofMany returns a request of so many spans of 5 attributes, children first.
func ofMany() []byte {
	var records [][]byte
	for i := range manySpans {
		var attrs []any
		for j := range 5 {
			attrs = append(attrs, 9, text(fmt.Sprint("attribute.", j), fmt.Sprint("value ", i)))
		}
		records = append(records, span(manySpans-i, (manySpans-i)/2, "GET /orders", attrs...))
	}
	return request("shop", records...)
}

// TestSpansTakeNoAllocations records the same spans again and again.
func TestSpansTakeNoAllocations(t *testing.T) {
	f, err := receive.NewFiles(receive.FilesOptions{Dir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close(context.Background())
	request := ofMany()
	got := hosttest.Allocations(20, func() {
		if _, err := f.Take(t.Context(), codec.Spans, codec.Protobuf, request); err != nil {
			t.Error(err)
		}
	})
	if got > manySpans/2 {
		t.Errorf("a request of %d spans takes %g allocations", manySpans, got)
	}
}

// BenchmarkTake records requests of 512 spans of 5 attributes, as a sender has them.
func BenchmarkTake(b *testing.B) {
	f, err := receive.NewFiles(receive.FilesOptions{Dir: b.TempDir()})
	if err != nil {
		b.Fatal(err)
	}
	defer f.Close(context.Background())
	request := ofMany()
	b.SetBytes(int64(len(request)))
	b.ReportAllocs()
	for b.Loop() {
		if _, err := f.Take(b.Context(), codec.Spans, codec.Protobuf, request); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(manySpans*b.N)/b.Elapsed().Seconds(), "spans/s")
}
