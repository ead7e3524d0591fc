package slogadapter_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"runtime"
	"testing"
	"time"

	"github.com/entrace-go/entrace/internal/write/ring"
	"github.com/entrace-go/entrace/slogadapter"
)

// BenchmarkHandle measures Handle alone: the recorder writes to a ring in memory that nobody reads.
func BenchmarkHandle(b *testing.B) {
	attrs := []slog.Attr{
		slog.Int("status", 200),
		slog.String("path", "/api/v1/tenants/4711/carts/0815/items?expand=all"),
		slog.Int64("bytes", 123456),
		slog.String("method", "GET"),
		slog.String("user", "ada"),
		slog.Time("start", time.Date(2026, time.November, 20, 21, 27, 12, 21_345_678, time.UTC)),
		slog.Duration("elapsed", 1234567),
		slog.Any("err", errors.New("dial tcp 10.20.30.40:5432: i/o timeout, try again")),
		slog.Bool("cached", true),
		slog.Float64("ratio", 0.75),
	}
	for _, n := range []int{10, 2, 0} {
		b.Run(fmt.Sprintf("attrs=%d", n), func(b *testing.B) {
			r, err := ring.New(&ring.Options{Bytes: 8 << 20})
			must(b, err)
			defer r.Close()
			r.SetBuffered(math.MaxUint64)
			h := slogadapter.New(r.Recorder(), nil)
			var pcs [1]uintptr
			runtime.Callers(1, pcs[:])
			rec := slog.NewRecord(time.Now(), slog.LevelInfo, "request handled by the upstream", pcs[0])
			rec.AddAttrs(attrs[:n]...)
			ctx := context.Background()
			b.ReportAllocs()
			for b.Loop() {
				if err := h.Handle(ctx, rec); err != nil { // must reads the stack on each call
					b.Fatal(err)
				}
			}
		})
	}
}
