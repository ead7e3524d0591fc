package gotrace

import (
	"bytes"
	"context"
	"sync"
	"testing"

	"github.com/entrace-go/entrace/internal/testkit/expect"
)

// busy returns an execution trace of requests with ten spans each. It has about size bytes or more.
func busy(t testing.TB, size int) []byte {
	t.Helper()
	_, b := record(t, func(ctx context.Context, p *program) {
		var mu sync.Mutex
		for range size / 700 { // a request needs about 700 bytes
			var wg sync.WaitGroup
			p.in(ctx, "request", func(ctx context.Context) {
				for range 4 {
					c := make(chan int)
					wg.Go(func() { p.in(ctx, "query", func(context.Context) { mu.Lock(); mu.Unlock(); c <- 1 }) }) //nolint:staticcheck // waiting is all
					p.in(ctx, "wait", func(context.Context) { <-c })
				}
				p.in(ctx, "join", func(context.Context) { wg.Wait() })
			})
		}
	})
	return b
}

// BenchmarkRead reads an execution trace with the times of all its spans.
func BenchmarkRead(b *testing.B) {
	data := busy(b, 16<<20)
	b.SetBytes(int64(len(data)))
	b.ReportAllocs()
	spans := 0
	for b.Loop() {
		spans = len(read(b, data).Spans)
	}
	b.ReportMetric(float64(spans), "spans")
}

// BenchmarkWindow reads the states of all goroutines during a second.
func BenchmarkWindow(b *testing.B) {
	data := busy(b, 16<<20)
	t, err := Read(b.Context(), bytes.NewReader(data), int64(len(data)))
	expect.Must(b, err)
	from := t.begins[len(t.begins)/2].time
	b.ReportAllocs()
	for b.Loop() {
		w, err := t.Window(b.Context(), from, from+1_000_000_000)
		if err != nil || w.Damage != nil {
			b.Fatal(err, w.Damage)
		}
	}
}
