package entraceexporter_test

import (
	"path/filepath"
	"testing"

	"go.opentelemetry.io/collector/pdata/ptrace"
)

// BenchmarkConsume measures requests of 512 spans with five attributes each.
func BenchmarkConsume(b *testing.B) {
	p := create(b, map[string]any{"path": filepath.Join(b.TempDir(), "trace.et")}).start(b)
	td := ptrace.NewTraces()
	spansOf(512).CopyTo(td)
	for _, s := range td.ResourceSpans().At(0).ScopeSpans().At(0).Spans().All() {
		s.Attributes().PutStr("http.request.method", "GET")
		s.Attributes().PutStr("url.path", "/api/v1/orders")
		s.Attributes().PutInt("http.response.status_code", 200)
		s.Attributes().PutStr("server.address", "shop.example.com")
		s.Attributes().PutDouble("load", 0.5)
	}
	td.MarkReadOnly()
	b.ReportAllocs()
	for b.Loop() {
		must(b, p.traces.ConsumeTraces(b.Context(), td))
	}
}
