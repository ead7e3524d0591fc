package query_test

import (
	"testing"

	"github.com/entrace-go/entrace/format"
	"github.com/entrace-go/entrace/internal/core/mapping"
	"github.com/entrace-go/entrace/internal/testkit/expect"
	"github.com/entrace-go/entrace/internal/testkit/querytest"
	"github.com/entrace-go/entrace/internal/testkit/tracetest"
)

// TestStatusIsReplacedAsAWhole checks that if the end of a span has another status, rows and queries do not show
// the status description from its start.
func TestStatusIsReplacedAsAWhole(t *testing.T) {
	begun := span(0, "1", "call", 10, -1)
	begun.Attributes = append(begun.Attributes, tracetest.Attributes(mapping.AttrStatusCode, "ERROR", mapping.AttrStatusDescription, "for now")...)
	id, _ := begun.Attribute(format.AttrSpanID)
	end := tracetest.Below(1, tracetest.Entry(format.NameSpanEnd, format.AttrSpanID, id, format.AttrDuration, uint64(5), mapping.AttrStatusCode, "OK"))
	v := viewOf(t, []*format.TraceEntry{format.Root(), begun, end})
	e, err := v.Entry(1)
	must(t, err)
	if d, has := e.Attribute(mapping.AttrStatusDescription); has {
		t.Errorf("the row has the description %q", d.Text())
	}
	for q, want := range map[string]int{`{ statusMessage != nil }`: 0, `{ status = ok }`: 1, `{ statusMessage > "a" }`: 0, `{ level = error }`: 0} {
		r := querytest.Result(t, v, q)
		expect.Equal(t, r.Rows.Len(), want, "rows that %s selects", q)
	}
}
