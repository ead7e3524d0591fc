// Command live records nested spans until it is killed. Kill it, and examine its file:
//
//	live &
//	kill -9 $!
//	entrace tree live.et
//
// The file also has the spans that had not ended.
package main

import (
	"context"
	"flag"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"syscall"
	"time"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/trace"

	"github.com/entrace-go/entrace"
	"github.com/entrace-go/entrace/exporter"
)

func main() {
	path := flag.String("o", "live.et", "the trace")
	flag.Parse()
	if err := run(*path); err != nil {
		fmt.Fprintln(os.Stderr, "live:", err)
		os.Exit(1)
	}
}

func run(path string) error {
	// SIGTERM and ^C shut the program down; SIGKILL ends it without Shutdown.
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	p, err := entrace.Setup(ctx, exporter.WithPath(path))
	if err != nil {
		return err
	}
	slog.SetDefault(slog.New(p.LogHandler(nil))) // to stderr and to the recorder
	fmt.Println("recording to", p.Recorder().StreamPath())
	for n := 1; ctx.Err() == nil; n++ {
		round(ctx, n)
	}
	end, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	return p.Shutdown(end)
}

func round(ctx context.Context, n int) {
	tracer := otel.Tracer("example.com/live")
	ctx, span := tracer.Start(ctx, "round", trace.WithAttributes(attribute.Int("n", n)))
	defer span.End()
	for _, part := range []string{"fetch", "compute", "store"} {
		ctx, span := tracer.Start(ctx, part)
		slog.InfoContext(ctx, "working", "part", part, "n", n)
		select {
		case <-ctx.Done():
		case <-time.After(100 * time.Millisecond):
		}
		span.End()
	}
}
