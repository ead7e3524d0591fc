//go:build conformance

package collector

import (
	"bytes"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"

	"github.com/entrace-go/entrace/convert/otlp"
	"github.com/entrace-go/entrace/exporter"
	"github.com/entrace-go/entrace/recorder"
	"github.com/entrace-go/entrace/slogadapter"
)

// TestRecorded encodes a recording of a service as OTLP. pdata must read the same tree from it, and this module's
// decoder must make the same trace of it.
func TestRecorded(t *testing.T) {
	path := filepath.Join(t.TempDir(), "app.et")
	rec, err := recorder.Create(path, nil)
	must(t, err)
	live, err := exporter.NewSpanProcessor(exporter.WithRecorder(rec))
	must(t, err)
	tp := sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(live))
	log := slog.New(slogadapter.New(rec, nil))
	ctx, up := tp.Tracer("shop", trace.WithInstrumentationVersion("1")).Start(t.Context(), "GET /cart", trace.WithSpanKind(trace.SpanKindServer))
	log.InfoContext(ctx, "cart loaded", "items", 3, "odd \u2028", []byte{0xff})
	_, down := tp.Tracer("db").Start(ctx, "SELECT", trace.WithLinks(trace.LinkFromContext(ctx, attribute.Bool("k", true))))
	down.SetAttributes(attribute.Float64Slice("f", []float64{1, 2.5}), attribute.Int64Slice("none", nil))
	down.RecordError(errors.New("no rows"))
	down.SetStatus(codes.Error, "no rows")
	down.End()
	up.End()
	log.Warn("bye")
	must(t, errors.Join(tp.Shutdown(t.Context()), rec.Close(t.Context())))

	lines := encode(t, path, nil)
	traces, logs := judged(t, lines)
	spans := make(map[string][8]byte)
	parents := make(map[string][8]byte)
	for _, td := range traces {
		for _, rs := range td.ResourceSpans().All() {
			if name, ok := rs.Resource().Attributes().Get("service.name"); !ok || name.Str() == "" {
				t.Error("a resource without a service.name")
			}
			for _, ss := range rs.ScopeSpans().All() {
				for _, sp := range ss.Spans().All() {
					spans[sp.Name()], parents[sp.Name()] = sp.SpanID(), sp.ParentSpanID()
					if sp.Name() == "SELECT" && (sp.Events().Len() != 1 || sp.Links().Len() != 1 || sp.Status().Message() != "no rows" || sp.EndTimestamp() < sp.StartTimestamp()) {
						t.Error("SELECT lacks something")
					}
				}
			}
		}
	}
	if len(spans) != 2 || parents["SELECT"] != spans["GET /cart"] {
		t.Errorf("the spans are %v, their parents %v", spans, parents)
	}
	bodies := make(map[string][8]byte)
	for _, ld := range logs {
		for _, rl := range ld.ResourceLogs().All() {
			for _, sl := range rl.ScopeLogs().All() {
				for _, lr := range sl.LogRecords().All() {
					bodies[lr.Body().Str()] = lr.SpanID()
					if _, ok := lr.Attributes().Get("code.file.path"); !ok {
						t.Errorf("%q lacks its place in the source", lr.Body().Str())
					}
				}
			}
		}
	}
	if len(bodies) != 2 || bodies["cart loaded"] != spans["GET /cart"] {
		t.Errorf("the log records are %v", bodies)
	}

	again := filepath.Join(t.TempDir(), "again.jsonl")
	must(t, os.WriteFile(again, lines, 0o600))
	second := encode(t, decode(t, again), &otlp.EncodeOptions{})
	var want, got [][]byte
	for line := range bytes.Lines(lines) {
		want = append(want, line)
	}
	for line := range bytes.Lines(second) {
		got = append(got, line)
	}
	if g, w := canonical(t, got...), canonical(t, want...); !slices.Equal(g, w) {
		t.Errorf("it comes back as %s, want %s", second, lines)
	}
}
