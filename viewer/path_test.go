package viewer_test

import (
	"os"
	"strings"
	"testing"

	"github.com/entrace-go/entrace/format"
	"github.com/entrace-go/entrace/viewer"
)

// TestCriticalPath: where Go's execution trace tells what a request waited for, its path is measured, else inferred.
func TestCriticalPath(t *testing.T) {
	recorded, err := os.ReadFile("../internal/read/gotrace/testdata/go1.26.trace")
	if err != nil {
		t.Fatal(err)
	}
	attribute := func(name string, v format.Value) format.Attribute { return format.Attribute{Name: name, Value: v} }
	span := func(parent uint32, name, id string) *format.TraceEntry {
		return &format.TraceEntry{Parent: parent, Metadata: format.Metadata{Name: name}, Attributes: []format.Attribute{
			attribute(format.AttrTime, format.U64Value(1e18)), attribute(format.AttrSpanID, format.StringValue(id)),
			attribute(format.AttrTraceID, format.StringValue(strings.Repeat("1", 32))), attribute(format.AttrDuration, format.U64Value(100*ms)),
		}}
	}
	entries := []*format.TraceEntry{
		format.Root(),
		{Message: format.Some("shop"), Metadata: format.Metadata{Name: format.NameResource}},
		span(1, "request", "0000000000000001"), span(2, "reindex", "0000000000000002"),
	}
	type answer struct {
		Span     struct{ Name string }
		Inferred bool
		Duration int64 `json:"duration_nano"`
		Steps    []struct {
			Span struct {
				Row  uint32
				Name string
			}
			State    string
			Duration int64 `json:"duration_nano"`
		}
	}
	got := jsonOf[answer](t, serve(t, viewOf(t, format.ET, entries), viewer.Options{}), "/api/critical?row=3")
	if got.Span.Name != "request" || !got.Inferred || len(got.Steps) != 1 || got.Steps[0].Span.Name != "reindex" || got.Steps[0].State != "" {
		t.Errorf("inferred it is %+v", got)
	}
	entries = append(entries, &format.TraceEntry{Metadata: format.Metadata{Name: "exec.trace", Target: "runtime/trace"}, Attributes: []format.Attribute{attribute("data", format.BytesValue(recorded))}})
	got = jsonOf[answer](t, serve(t, viewOf(t, format.ET, entries), viewer.Options{}), "/api/critical?row=3")
	if got.Span.Name != "request" || got.Inferred || len(got.Steps) != 1 || got.Steps[0].Span.Name != "reindex" || got.Steps[0].State != "sleep" || got.Steps[0].Duration*100 < 95*got.Duration || got.Steps[0].Span.Row != 3 {
		t.Errorf("measured it is %+v", got)
	}
}
