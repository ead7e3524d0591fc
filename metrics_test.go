package entrace_test

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/entrace-go/entrace"
	"github.com/entrace-go/entrace/exporter"
	"github.com/entrace-go/entrace/internal/testkit/metrictest"
)

func TestSetupMetrics(t *testing.T) {
	for _, test := range []struct{ exporters, mode, want string }{
		{"entrace", "live", "span.exported{entrace_span_processor/0} 1\n"},
		{"entrace", "batch", "span.exported{entrace_span_exporter/0} 1\n"},
		{"none", "live", "entries.written{entrace_recorder/0} "}, // for logs
	} {
		t.Run(test.exporters+" "+test.mode, func(t *testing.T) {
			r := metrictest.Measured(t)
			t.Setenv("OTEL_TRACES_EXPORTER", test.exporters)
			t.Setenv("OTEL_EXPORTER_ENTRACE_MODE", test.mode)
			t.Setenv("OTEL_EXPORTER_ENTRACE_PATH", filepath.Join(t.TempDir(), "app.et"))
			p, err := entrace.Setup(t.Context(), entrace.WithoutGlobals())
			must(t, err)
			_, s := p.TracerProvider().Tracer("").Start(t.Context(), "s")
			s.End()
			must(t, p.ForceFlush(t.Context()))
			if got := r.Collect(t); !strings.Contains(got, test.want) || !strings.Contains(got, "spans.waiting{entrace_recorder/0} ") {
				t.Errorf("the numbers are\n%s\nwant %s", got, test.want)
			}
			for range 2 {
				must(t, p.Shutdown(t.Context()))
			}
			if all := r.Collect(t); strings.Contains(all, "{entrace_recorder/") {
				t.Errorf("after Shutdown there still is\n%s", all)
			}
		})
	}
}

// TestSetupMetricsFailed: a recorder that discards everything has no metrics.
func TestSetupMetricsFailed(t *testing.T) {
	r := metrictest.Measured(t)
	p, err := entrace.Setup(t.Context(), entrace.WithoutGlobals(), exporter.WithPath(filepath.Join(os.Args[0], "app.et")))
	if err == nil {
		t.Fatal("no error")
	}
	_, s := p.TracerProvider().Tracer("").Start(t.Context(), "s")
	s.End()
	must(t, p.Shutdown(context.Background()))
	r.Want(t, "")
}
