//go:build conformance

package collector

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"go.opentelemetry.io/contrib/bridges/otelslog"
	sdklog "go.opentelemetry.io/otel/sdk/log"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"

	"github.com/entrace-go/entrace/exporter"
	"github.com/entrace-go/entrace/format"
	"github.com/entrace-go/entrace/recorder"
	"github.com/entrace-go/entrace/slogadapter"
)

// A sink is a log exporter that stores one line per record.
type sink struct{ lines []string }

func (s *sink) Export(_ context.Context, records []sdklog.Record) error {
	for i := range records {
		r := &records[i]
		s.lines = append(s.lines, line(int(r.Severity()), r.SeverityText(), r.TraceID(), r.SpanID(), uint32(r.TraceFlags()), r.Timestamp().UnixNano(), !r.ObservedTimestamp().IsZero()))
	}
	return nil
}

func (*sink) Shutdown(context.Context) error   { return nil }
func (*sink) ForceFlush(context.Context) error { return nil }

func line(severity int, text string, trace [16]byte, span [8]byte, flags uint32, unixNano int64, observed bool) string {
	return fmt.Sprintf("severity %d %q, trace %x, span %x, flags %d, at %d, observed %v", severity, text, trace, span, flags, unixNano, observed)
}

// lines returns one line per log record of a trace.
func lines(t *testing.T, path string) (all []string) {
	t.Helper()
	_, logs := judged(t, encode(t, path, nil))
	for _, ld := range logs {
		for _, rl := range ld.ResourceLogs().All() {
			for _, sl := range rl.ScopeLogs().All() {
				for _, l := range sl.LogRecords().All() {
					all = append(all, line(int(l.SeverityNumber()), l.SeverityText(), l.TraceID(), l.SpanID(), uint32(l.Flags()), int64(l.Timestamp()), l.ObservedTimestamp() != 0))
				}
			}
		}
	}
	slices.Sort(all)
	return all
}

// TestLogProcessorKeepsRecords records the log records of a bridge with this module's log processor. It compares
// the OTLP log records made from the trace with the records that another exporter gets.
func TestLogProcessorKeepsRecords(t *testing.T) {
	path := filepath.Join(t.TempDir(), "app.et")
	rec, err := recorder.Create(path, nil)
	must(t, err)
	p, err := exporter.NewLogProcessor(exporter.WithRecorder(rec))
	must(t, err)
	var theirs sink
	lp := sdklog.NewLoggerProvider(sdklog.WithProcessor(sdklog.NewSimpleProcessor(&theirs)), sdklog.WithProcessor(p))
	remote := trace.ContextWithRemoteSpanContext(t.Context(), trace.NewSpanContext(trace.SpanContextConfig{
		TraceID: trace.TraceID{1}, SpanID: trace.SpanID{2}, TraceFlags: trace.FlagsSampled,
	}))
	h := otelslog.NewHandler("t", otelslog.WithLoggerProvider(lp))
	for _, ctx := range []context.Context{remote, t.Context()} {
		for lv := slog.Level(-8); lv <= 20; lv++ {
			must(t, h.Handle(ctx, slog.NewRecord(time.Unix(1_700_000_000, int64(lv)+100), lv, "m", 0)))
		}
	}
	must(t, errors.Join(lp.Shutdown(t.Context()), rec.Close(t.Context())))
	slices.Sort(theirs.lines)
	if ours := lines(t, path); len(ours) != 2*29 || !slices.Equal(ours, theirs.lines) {
		t.Errorf("%d records\n%q\nand of the other exporter %d\n%q", len(ours), ours, len(theirs.lines), theirs.lines)
	}
}

// TestSlogBridge logs the same records with OpenTelemetry's own bridge for log/slog and with slogadapter, in
// sampled and unsampled spans and outside of spans. It compares the OTLP log records.
func TestSlogBridge(t *testing.T) {
	for _, version := range []format.Version{format.V1, format.V2} {
		path := filepath.Join(t.TempDir(), "app.et")
		rec, err := recorder.Create(path, &recorder.Options{Version: version})
		must(t, err)
		live, err := exporter.NewSpanProcessor(exporter.WithRecorder(rec))
		must(t, err)
		tp := sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(live))
		never := sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(live), sdktrace.WithSampler(sdktrace.NeverSample()))
		sampled, span := tp.Tracer("t").Start(t.Context(), "sampled")
		dropped, _ := never.Tracer("t").Start(t.Context(), "dropped")
		remote := trace.ContextWithRemoteSpanContext(t.Context(), trace.NewSpanContext(trace.SpanContextConfig{
			TraceID: trace.TraceID{1}, SpanID: trace.SpanID{2}, TraceFlags: trace.FlagsSampled,
		}))
		var theirs sink
		lp := sdklog.NewLoggerProvider(sdklog.WithProcessor(sdklog.NewSimpleProcessor(&theirs)))
		handlers := []slog.Handler{
			otelslog.NewHandler("t", otelslog.WithLoggerProvider(lp)),
			slogadapter.New(rec, &slogadapter.Options{Level: slog.Level(-100)}),
		}
		for _, ctx := range []context.Context{sampled, dropped, remote, t.Context()} {
			for lv := slog.Level(-8); lv <= 15; lv++ { // OTLP's severities 1 to 24
				for range 2 {
					r := slog.NewRecord(time.Unix(1_700_000_000, int64(lv)+100), lv, "m", 0)
					r.AddAttrs(slog.Int("k", 1))
					for _, h := range handlers {
						must(t, h.Handle(ctx, r.Clone()))
					}
				}
			}
		}
		span.End()
		must(t, errors.Join(tp.Shutdown(t.Context()), rec.Close(t.Context()), lp.Shutdown(t.Context())))
		ours := lines(t, path)
		slices.Sort(theirs.lines)
		if len(ours) != 4*24*2 || !slices.Equal(ours, theirs.lines) {
			t.Errorf("version %d: %d records\n%q\nand of the bridge %d\n%q", version, len(ours), ours, len(theirs.lines), theirs.lines)
		}
	}
}
