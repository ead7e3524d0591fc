package query_test

import (
	"testing"

	"github.com/entrace-go/entrace/format"
	"github.com/entrace-go/entrace/query"
)

// TestSpanOfMeasurements: how long something took before a row that is no span is not behind that row.
func TestSpanOfMeasurements(t *testing.T) {
	v := viewOf(t, []*format.TraceEntry{
		format.Root(), {Metadata: format.Metadata{Name: "trace end"}, Attributes: []format.Attribute{
			{Name: format.AttrTime, Value: format.U64Value(5e9)}, {Name: format.AttrDuration, Value: format.U64Value(3e9)},
		}},
	})
	if first, last, ok := query.Span(v); first != 5e9 || last != 5e9 || !ok {
		t.Errorf("the times are from %d to %d", first, last)
	}
}
