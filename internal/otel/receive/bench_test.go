package receive_test

import (
	"bytes"
	"fmt"
	"testing"

	"github.com/entrace-go/entrace/internal/otel/codec"
	"github.com/entrace-go/entrace/internal/otel/receive"
	"github.com/entrace-go/entrace/internal/testkit/hosttest"
)

const manySpans = 512

// ofMany returns a request with manySpans spans of 5 attributes each, children first.
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

// renew moves the spans of a request from trace n to trace n+1, because a receiver does not record the same request
// twice.
func renew(request []byte, n int) {
	for was, i := id(16, n), 0; ; i += len(was) {
		at := bytes.Index(request[i:], was)
		if at < 0 {
			return
		}
		i += at
		copy(request[i:], id(16, n+1))
	}
}

// TestSpansTakeNoAllocations counts the allocations for requests whose spans differ only in their trace id.
func TestSpansTakeNoAllocations(t *testing.T) {
	f := newFiles(t, receive.FolderOptions{})
	request, n := ofMany(), 0
	got := hosttest.Allocations(20, func() {
		n++
		renew(request, n)
		if _, err := f.Take(t.Context(), codec.Spans, codec.Protobuf, request); err != nil {
			t.Error(err)
		}
	})
	if got > manySpans/2 {
		t.Errorf("a request of %d spans takes %g allocations", manySpans, got)
	}
}

// BenchmarkTake records requests of 512 spans with 5 attributes each, a typical size of a sender's requests.
func BenchmarkTake(b *testing.B) {
	f := newFiles(b, receive.FolderOptions{})
	request := ofMany()
	b.SetBytes(int64(len(request)))
	b.ReportAllocs()
	n := 0
	for b.Loop() {
		n++
		renew(request, n)
		if _, err := f.Take(b.Context(), codec.Spans, codec.Protobuf, request); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(manySpans*b.N)/b.Elapsed().Seconds(), "spans/s")
}
