package exporter_test

import (
	"bytes"
	"fmt"
	"regexp"
	"runtime/trace"
	"slices"
	"testing"
	"time"

	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	oteltrace "go.opentelemetry.io/otel/trace"

	"github.com/entrace-go/entrace/control"
	"github.com/entrace-go/entrace/control/provider"
	"github.com/entrace-go/entrace/exporter"
	"github.com/entrace-go/entrace/internal/testkit/expect"
	"github.com/entrace-go/entrace/internal/testkit/tracetest"
	"github.com/entrace-go/entrace/internal/write/flightrecorder"
	"github.com/entrace-go/entrace/internal/write/setup"
)

// TestMarks: a span logs a mark with its id to the execution trace when it begins, right before the task of
// the SDK. A span of a second or longer also logs one when it ends. The test reads the execution trace with go
// tool trace.
func TestMarks(t *testing.T) {
	if trace.IsEnabled() {
		t.Skip("the test is traced")
	}
	for _, marks := range []string{"", "on", "off", "alone"} {
		option := exporter.WithRecorder(create(t, nil))
		if marks != "alone" {
			cfg := control.DefaultConfig()
			cfg.ID, cfg.Dir, cfg.Ring.Always, cfg.Ring.Params = "test", t.TempDir(), control.Spans, map[string]string{"exec.trace.marks": marks}
			ctl, err := control.New(&control.Options{Config: cfg, Providers: provider.All()})
			must(t, err)
			defer func() { must(t, ctl.Shutdown(t.Context())) }()
			option = setup.WithFlight(flightrecorder.Of(ctl))
		}
		p, err := exporter.NewSpanProcessor(option)
		must(t, err)
		tracer := sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(p)).Tracer("")
		var data bytes.Buffer
		var want []string
		must(t, trace.Start(&data))
		ctx := t.Context()
		for i := range 3 {
			var s oteltrace.Span
			ctx, s = tracer.Start(ctx, fmt.Sprint("work ", i), oteltrace.WithTimestamp(epoch))
			id := s.SpanContext().SpanID().String()
			want = append(want, "otel.span "+id)
			defer s.End(oteltrace.WithTimestamp(epoch.Add(time.Millisecond)))
			_, long := tracer.Start(ctx, "long", oteltrace.WithTimestamp(epoch))
			id = long.SpanContext().SpanID().String()
			want = append(want, "otel.span "+id, "otel.end "+id)
			long.End(oteltrace.WithTimestamp(epoch.Add(time.Second)))
		}
		trace.Stop()
		out := tracetest.ParsedExecTrace(t, data.Bytes())
		var got []string
		for _, m := range regexp.MustCompile(`Category="(otel\.\w+)" Message="(\w+)"`).FindAllSubmatch(out, -1) {
			got = append(got, string(m[1])+" "+string(m[2]))
		}
		if marks == "off" {
			want = nil
		}
		expect.Slice(t, got, want, "marks %s", marks)
		var order []string // no other goroutine has such events
		for _, m := range regexp.MustCompile(`Category="otel\.span"| TaskBegin `).FindAll(out, -1) {
			order = append(order, string(m))
		}
		if alternating := slices.Repeat([]string{`Category="otel.span"`, " TaskBegin "}, 6); marks != "off" && !slices.Equal(order, alternating) {
			t.Errorf("marks %s: the order is %v", marks, order)
		}
	}
}

func BenchmarkSpanWhileTraced(b *testing.B) {
	for _, traced := range []bool{false, true} {
		b.Run(fmt.Sprint("traced=", traced), func(b *testing.B) {
			p, err := exporter.NewSpanProcessor(exporter.WithRecorder(create(b, nil)))
			must(b, err)
			tracer := sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(p)).Tracer("")
			if traced {
				must(b, trace.Start(discard{}))
				defer trace.Stop()
			}
			b.ReportAllocs()
			for b.Loop() {
				_, s := tracer.Start(b.Context(), "work")
				s.End()
			}
		})
	}
}

type discard struct{}

func (discard) Write(b []byte) (int, error) { return len(b), nil }
