package exporter_test

import (
	"context"
	"log"
	"log/slog"
	"testing"
	"time"

	sdktrace "go.opentelemetry.io/otel/sdk/trace"

	"github.com/entrace-go/entrace/internal/text/notice"
	"github.com/entrace-go/entrace/slogadapter"
)

// TestErrorsComeBack sends every error to the log that the recorder records, as
// OpenTelemetry's own error handler does when the recorder is slog's default.
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
				if err := rec.Close(context.Background()); err != nil { // everything fails from here on
					t.Error(err)
				}
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
