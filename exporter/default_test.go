package exporter_test

import (
	"context"
	"log"
	"log/slog"
	"testing"
	"time"

	sdktrace "go.opentelemetry.io/otel/sdk/trace"

	"github.com/entrace-go/entrace/internal/testkit/expect"
	"github.com/entrace-go/entrace/internal/text/notice"
	"github.com/entrace-go/entrace/slogadapter"
)

// TestErrorsComeBack: an error handler may log errors through slog, whose records go to the same
// recorder. OpenTelemetry's own error handler does so if the recorder's handler is slog's default.
// This must not deadlock.
func TestErrorsComeBack(t *testing.T) {
	before, flags := slog.Default(), log.Flags()
	defer func() {
		slog.SetDefault(before)
		log.SetFlags(flags)
	}()
	rec := create(t, nil)
	slog.SetDefault(slog.New(slogadapter.New(rec, nil)))
	notice.SetErrorHandler(func(err error) { log.Print(err) })
	p := spanProcessor(t, rec)
	tp := sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(p), sdktrace.WithSyncer(newExporter(t, rec)))
	done := make(chan struct{})
	go func() {
		defer close(done)
		for i := range 3 {
			if i == 1 {
				expect.OK(t, rec.Close(context.Background())) // every later call fails
			}
			ctx, s := tp.Tracer("").Start(context.Background(), "s")
			slog.InfoContext(ctx, "in the span")
			log.Print("by the log package")
			s.End()
		}
	}()
	select {
	case <-done:
	case <-time.After(20 * time.Second):
		t.Fatal("deadlock")
	}
	if st := rec.Stats(); st.Entries.Dropped.Closed == 0 || st.Entries.Offered != st.Entries.Written+st.Entries.Dropped.Total() {
		t.Errorf("the account is %+v", st.Entries)
	}
}
