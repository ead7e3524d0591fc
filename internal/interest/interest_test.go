package interest_test

import (
	"testing"

	"github.com/entrace-go/entrace/format"
	"github.com/entrace-go/entrace/internal/interest"
	"github.com/entrace-go/entrace/internal/tracetest"
)

// TestRequest: a span of another request is told by its request, and by what that has of its own.
func TestRequest(t *testing.T) {
	span := func(parent uint32, id, name string, more ...format.Attribute) *format.TraceEntry {
		return &format.TraceEntry{Parent: parent, Metadata: format.Metadata{Name: name}, Attributes: append(more,
			format.Attribute{Name: format.AttrSpanID, Value: format.StringValue(id)}, format.Attribute{Name: format.AttrTraceID, Value: format.StringValue("0000000000000000000000000000000a")}, format.Attribute{Name: format.AttrTime, Value: format.U64Value(1)})}
	}
	kind := func(s string) format.Attribute { return format.Attribute{Name: "kind", Value: format.StringValue(s)} }
	same := format.Attribute{Name: "region", Value: format.StringValue("eu")}
	v := tracetest.New(t, format.V2, format.IET, format.Root(),
		span(0, "0000000000000001", "POST /job", same, kind("mail")), span(1, "0000000000000002", "work"),
		span(0, "0000000000000003", "POST /job", same, kind("report")), span(3, "0000000000000004", "work"),
	).View()
	k := interest.NewRanker(v)
	rows := make(map[string]string)
	for r := range v.Rows() {
		for own := range v.Rows() {
			if v.Name(r) != "" && v.Name(own) == "work" && v.Parent(own) == 1 {
				rows[v.Name(r)+" "+v.Name(v.Parent(r))] += k.Request(r, own) + ";"
			}
		}
	}
	if got := rows["work POST /job"]; got != ";of POST /job kind=report region=eu;" {
		t.Errorf("of the spans below, it says %q", got)
	}
	if got := rows["POST /job root"]; got != ";kind=report region=eu;" {
		t.Errorf("of the requests, it says %q", got)
	}
}
