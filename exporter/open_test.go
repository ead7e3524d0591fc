package exporter

import (
	"context"
	"fmt"
	"io"
	"io/fs"
	"strings"
	"syscall"
	"testing"
	"time"

	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"

	"github.com/entrace-go/entrace/format"
	"github.com/entrace-go/entrace/internal/testkit/expect"
	"github.com/entrace-go/entrace/internal/testkit/hosttest"
	"github.com/entrace-go/entrace/internal/testkit/tracetest"
)

// TestOpenSpansKeepMonotonicTime checks that the start of an open span has a monotonic reading, and
// that a start time that the application passed is not changed.
func TestOpenSpansKeepMonotonicTime(t *testing.T) {
	rec := tracetest.CreateAt(t, hosttest.Path(t, "app.et"), nil)
	p, err := NewSpanProcessor(WithRecorder(rec))
	expect.Must(t, err)
	tp := sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(p))
	before := time.Now()
	_, now := tp.Tracer("t").Start(t.Context(), "now")
	_, old := tp.Tracer("t").Start(t.Context(), "old", trace.WithTimestamp(before.Add(-time.Hour).Round(0)))
	seen := make(map[string]time.Time)
	see := func(name string, _, _ format.SpanRef, start time.Time) bool { seen[name] = start; return true }
	p.open.each(time.Now().Add(-time.Minute), see)
	if _, early := seen["now"]; early || len(seen) != 1 {
		t.Errorf("%v are open for a minute", seen)
	}
	p.open.each(time.Now().Add(time.Minute), see)
	if !strings.Contains(seen["now"].String(), " m=") || seen["now"].Before(before) || time.Since(seen["now"]) > time.Minute {
		t.Errorf("the span began at %v, after %v", seen["now"], before)
	}
	if d := before.Sub(seen["old"]); d < time.Hour-time.Second || d > time.Hour+time.Second {
		t.Errorf("the other one began %v before", d)
	}
	now.End()
	old.End()
	ctx := context.WithoutCancel(t.Context())
	expect.Must(t, tp.Shutdown(ctx))
	expect.Must(t, rec.Close(ctx))
}

// TestErrorOfRecorderIsReportedOnce checks that a call that gets the error of a failed write does not report it again,
// although a later write has failed with another error of the same text.
func TestErrorOfRecorderIsReportedOnce(t *testing.T) {
	full := func() error { return &fs.PathError{Op: "write", Path: "app.iet", Err: syscall.ENOSPC} }
	last := full()
	for err, want := range map[error]bool{last: true, full(): true, fmt.Errorf("record: %w", last): true, io.ErrShortWrite: false} {
		expect.Equal(t, isLast(err, last), want, "%v", err)
	}
	if isLast(last, nil) {
		t.Error("without an error of the recorder, the call must report its own")
	}
}
