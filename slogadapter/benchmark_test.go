package slogadapter_test

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/entrace-go/entrace/format"
	"github.com/entrace-go/entrace/slogadapter"
)

// requestAttrs are what a server logs of a request.
func requestAttrs() []slog.Attr {
	return []slog.Attr{
		slog.Int("status", 200), slog.String("path", "/api/v1/organizations/4711/projects/42/issues/17"),
		slog.Int64("bytes", 52_341), slog.String("method", "GET"), slog.String("user", "mia@example.org"), slog.Time("start", time.Now()),
		slog.Duration("elapsed", 1234567), slog.Any("err", errors.New("read tcp 10.0.0.1:80: connection reset by the peer")),
		slog.Bool("cached", true), slog.Float64("ratio", 0.75),
	}
}

// benchmarks are the workloads that both handlers below do.
func benchmarks(b *testing.B, newHandler func(*testing.B) slog.Handler) {
	attrs := requestAttrs()
	for _, bench := range []struct {
		name        string
		with, attrs []slog.Attr
	}{
		{"attrs=2", nil, attrs[:2]},
		{"attrs=10", nil, attrs},
		{"with=10", attrs, []slog.Attr{slog.Int("retry", 1), slog.String("backend", "eu-west-1b")}},
	} {
		b.Run(bench.name, func(b *testing.B) {
			h := newHandler(b)
			if bench.with != nil {
				h = h.WithAttrs(bench.with)
			}
			l := slog.New(h)
			ctx := context.Background()
			b.ReportAllocs()
			for b.Loop() {
				l.LogAttrs(ctx, slog.LevelInfo, "request handled by the upstream", bench.attrs...)
			}
		})
	}
}

func BenchmarkHandle(b *testing.B) {
	benchmarks(b, func(b *testing.B) slog.Handler {
		rec, err := format.Create(filepath.Join(b.TempDir(), "log.iet"), nil)
		if err != nil {
			b.Fatal(err)
		}
		b.Cleanup(func() {
			if err := rec.Close(context.Background()); err != nil {
				b.Error(err)
			}
		})
		return slogadapter.New(rec, nil)
	})
}

// BenchmarkJSONHandler is what BenchmarkHandle is to be compared with.
func BenchmarkJSONHandler(b *testing.B) {
	benchmarks(b, func(b *testing.B) slog.Handler {
		f, err := os.Create(filepath.Join(b.TempDir(), "log.json"))
		if err != nil {
			b.Fatal(err)
		}
		b.Cleanup(func() {
			if err := f.Close(); err != nil {
				b.Error(err)
			}
		})
		return slog.NewJSONHandler(f, &slog.HandlerOptions{AddSource: true})
	})
}
