package parquet_test

import (
	"fmt"
	"io"
	"testing"

	"github.com/entrace-go/entrace/convert/parquet"
	"github.com/entrace-go/entrace/format"
	"github.com/entrace-go/entrace/internal/testkit/converttest"
	"github.com/entrace-go/entrace/internal/testkit/tracetest"
)

// spans returns n spans as a typical service records them.
func spans(n int) []*format.TraceEntry {
	all := []*format.TraceEntry{
		format.Root(),
		{Message: format.Some("cart"), Metadata: format.Metadata{Name: "resource", Level: format.LevelInfo}, Attributes: tracetest.Attributes("service.name", "cart")},
	}
	for i := range uint64(n) {
		all = append(all, &format.TraceEntry{
			Parent: 1, Metadata: format.Metadata{Name: fmt.Sprint("GET /", i%50), Target: "net/http", Level: format.LevelInfo},
			Attributes: tracetest.Attributes("trace_id", fmt.Sprintf("%032x", i/10+1), "span_id", fmt.Sprintf("%016x", i+1), "time_unix_nano", 1_700_000_000_000_000_000+i*1000,
				"duration_nano", i*i%5000, "otel.kind", "server", "http.request.method", "GET", "http.response.status_code", 200,
				"url.path", fmt.Sprint("/item/", i), "server.port", 8080),
		})
	}
	return all
}

func BenchmarkEncode(b *testing.B) {
	v := viewOf(b, format.V2, spans(50_000)...)
	b.ReportAllocs()
	b.SetBytes(v.Files()[0].Size())
	for b.Loop() {
		converttest.Must(b, parquet.Encode(b.Context(), io.Discard, v))
	}
}
