package interest_test

import (
	"fmt"
	"testing"

	"github.com/entrace-go/entrace/format"
	"github.com/entrace-go/entrace/internal/read/interest"
	"github.com/entrace-go/entrace/internal/testkit/expect"
	"github.com/entrace-go/entrace/internal/testkit/tracetest"
	"github.com/entrace-go/entrace/view"
)

// TestRequestAmongThousandsOfSiblings checks that the text about a request has the attributes of the request's
// outermost span. Its siblings, with which it is compared, are in other blocks of the file: reading them must not
// overwrite the attributes.
func TestRequestAmongThousandsOfSiblings(t *testing.T) {
	const siblings = 4000
	x := tracetest.New(t, format.V2, format.ET, format.Root())
	span := func(parent uint32, id int, name string, attributes ...string) uint32 {
		e := &format.TraceEntry{Parent: parent, Metadata: format.Metadata{Name: name, Level: format.LevelInfo}}
		add := func(name string, v format.Value) {
			e.Add(name, v)
		}
		add(format.AttrTraceID, format.StringValue(fmt.Sprintf("%032x", id)))
		add(format.AttrSpanID, format.StringValue(fmt.Sprintf("%016x", id)))
		add(format.AttrTime, format.U64Value(uint64(1_000_000*id)))
		add(format.AttrDuration, format.U64Value(1000))
		for i := 0; i < len(attributes); i += 2 {
			add(attributes[i], format.StringValue(attributes[i+1]))
		}
		format.SortAttributes(e.Attributes)
		return x.Add(e)
	}
	var rows []uint32
	for i := 1; i <= siblings; i++ {
		whole := span(0, 2*i, "GET /a", "http.response.status_code", "200", "tenant", fmt.Sprint("tenant-", i), "padding", fmt.Sprintf("%070d", i))
		rows = append(rows, span(whole, 2*i+1, "call"))
	}
	v := x.View()
	k := interest.NewRanker(v)
	for i, id := range rows {
		if i%97 != 0 {
			continue
		}
		r, _ := v.Row(0, id)
		expect.MustEqual(t, k.Request(r, view.Row(0)), fmt.Sprintf("of GET /a padding=%070d tenant=tenant-%d", i+1, i+1), "the request of row %d", r)
	}
}
