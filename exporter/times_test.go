package exporter_test

import (
	"context"
	"testing"
	"time"

	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"

	"github.com/entrace-go/entrace/exporter"
	"github.com/entrace-go/entrace/internal/testkit/expect"
	"github.com/entrace-go/entrace/view"
)

// TestGivenTimesComeBack: a time that the program passes to a span is restored exactly, even if its
// monotonic reading and its wall time belong to different moments.
func TestGivenTimesComeBack(t *testing.T) {
	const spans = 4000 // so many that for some the two readings differ
	ctx := context.Background()
	for _, live := range []bool{true, false} {
		rec := create(t, nil)
		var p sdktrace.SpanProcessor
		if live {
			var err error
			p, err = exporter.NewSpanProcessor(exporter.WithRecorder(rec))
			must(t, err)
		} else {
			e := newExporter(t, rec)
			p = sdktrace.NewSimpleSpanProcessor(e)
		}
		want := make(map[[8]byte][2]int64, spans)
		ended := tracetest.NewSpanRecorder()
		tracer := sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(p), sdktrace.WithSpanProcessor(ended)).Tracer("times")
		for i := range spans {
			_, s := tracer.Start(ctx, "span", trace.WithTimestamp(time.Now().Add(-2*time.Hour)))
			switch i % 4 {
			case 0:
				s.End(trace.WithTimestamp(time.Now().Add(-time.Hour)))
			case 1:
				s.End(trace.WithTimestamp(time.Now().Add(time.Hour)))
			case 2:
				s.End(trace.WithTimestamp(time.Unix(1_900_000_000, 123_456_789)))
			default:
				s.End()
			}
		}
		for _, s := range ended.Ended() {
			want[s.SpanContext().SpanID()] = [2]int64{s.StartTime().UnixNano(), s.EndTime().UnixNano()}
		}
		v := finish(t, rec)
		expect.MustEqual(t, len(want), spans, "spans have ended")
		wrong := 0
		for row := range view.Row(v.Len()) {
			id := v.Ref(row).SpanID
			times, ok := want[id]
			if !ok {
				continue
			}
			delete(want, id)
			start, _ := v.Start(row)
			took, _ := v.Duration(row)
			if got := [2]int64{start, start + int64(took)}; got != times {
				wrong++
				if wrong == 1 {
					t.Errorf("live %t: a span is from %d to %d, want from %d to %d", live, got[0], got[1], times[0], times[1])
				}
			}
		}
		if wrong > 0 || len(want) > 0 {
			t.Errorf("live %t: %d of %d spans have other times, %d are missing", live, wrong, spans, len(want))
		}
	}
}
