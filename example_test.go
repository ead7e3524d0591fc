package entrace_test

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"syscall"
	"time"

	"go.opentelemetry.io/otel"

	"github.com/entrace-go/entrace"
)

// This service shuts down on a signal, and waits at most ten seconds for the end of the recording.
func ExampleSetup() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	p, err := entrace.Setup(ctx, entrace.WithSlogDefault())
	if err != nil {
		slog.Warn("no trace is recorded", "err", err) // the service runs without a trace
	}
	work, span := otel.Tracer("shop").Start(ctx, "checkout")
	slog.InfoContext(work, "cart loaded", "items", 3) // recorded as a child of the span, and printed on stderr
	span.End()
	<-ctx.Done() // serve
	end, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	if err := p.Shutdown(end); err != nil {
		fmt.Println(err)
	}
}
