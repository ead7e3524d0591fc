package query_test

import (
	"testing"

	"github.com/entrace-go/entrace/format"
	"github.com/entrace-go/entrace/internal/testkit/tracetest"
	"github.com/entrace-go/entrace/query"
)

// TestSpanOfMeasurements: how long something took before a row that is no span is not behind that row.
func TestSpanOfMeasurements(t *testing.T) {
	v := viewOf(t, []*format.TraceEntry{
		format.Root(), tracetest.Entry("trace end", format.AttrTime, uint64(5e9), format.AttrDuration, uint64(3e9)),
	})
	if first, last, ok := query.Span(v); first != 5e9 || last != 5e9 || !ok {
		t.Errorf("the times are from %d to %d", first, last)
	}
}
