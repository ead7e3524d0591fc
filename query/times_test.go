package query_test

import (
	"testing"

	"github.com/entrace-go/entrace/format"
	"github.com/entrace-go/entrace/internal/testkit/tracetest"
)

// TestPeriodOfMeasurements: the duration of a row that is not a span lies before the row's time, so it
// does not extend the trace.
func TestPeriodOfMeasurements(t *testing.T) {
	v := viewOf(t, []*format.TraceEntry{
		format.Root(), tracetest.Entry("trace end", format.AttrTime, uint64(5e9), format.AttrDuration, uint64(3e9)),
	})
	if first, last, ok := v.Period(); first != 5e9 || last != 5e9 || !ok {
		t.Errorf("the times are from %d to %d", first, last)
	}
}
