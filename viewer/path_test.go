package viewer_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/entrace-go/entrace/format"
	"github.com/entrace-go/entrace/internal/analyze"
	"github.com/entrace-go/entrace/internal/testkit/expect"
	"github.com/entrace-go/entrace/internal/testkit/tracetest"
	"github.com/entrace-go/entrace/viewer"
)

// TestCriticalPath checks that the path of a request is measured if Go's execution trace says what the request
// waited for, and inferred otherwise.
func TestCriticalPath(t *testing.T) {
	recorded := tracetest.ReadFile(t, "../internal/read/gotrace/testdata/go1.26.trace")
	span := func(parent uint32, name, id string) *format.TraceEntry {
		return tracetest.Below(parent, tracetest.Entry(name,
			format.AttrTime, uint64(1e18), format.AttrSpanID, id,
			format.AttrTraceID, strings.Repeat("1", 32), format.AttrDuration, uint64(100*ms),
		))
	}
	entries := []*format.TraceEntry{
		format.Root(),
		tracetest.Resource("shop"),
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
	got := jsonOf[answer](t, served(t, entries), "/api/critical?row=3")
	if got.Span.Name != "request" || !got.Inferred || len(got.Steps) != 1 || got.Steps[0].Span.Name != "reindex" || got.Steps[0].State != "" {
		t.Errorf("inferred it is %+v", got)
	}
	entries = append(entries, &format.TraceEntry{Metadata: format.Metadata{Name: "exec.trace", Target: "runtime/trace"}, Attributes: tracetest.Attributes("data", recorded)})
	got = jsonOf[answer](t, served(t, entries), "/api/critical?row=3")
	if got.Span.Name != "request" || got.Inferred || len(got.Steps) != 1 || got.Steps[0].Span.Name != "reindex" || got.Steps[0].State != "sleep" || got.Steps[0].Duration*100 < 95*got.Duration || got.Steps[0].Span.Row != 3 {
		t.Errorf("measured it is %+v", got)
	}
}

// TestLongestStepsAreKept checks that exactly n steps are kept, even if several steps are equally long.
func TestLongestStepsAreKept(t *testing.T) {
	for _, c := range []struct {
		took []int64
		n    int
		want string
	}{{[]int64{1, 1, 1, 1}, 2, "[0 1]"}, {[]int64{1, 5, 1, 9, 5, 5}, 3, "[1 3 4]"}, {[]int64{2, 1}, 2, "[0 1]"}, {nil, 2, "[]"}} {
		steps := make([]analyze.Step, len(c.took))
		for i, d := range c.took {
			steps[i].Duration = d
		}
		is, got := viewer.Longest(steps, c.n), []int{}
		for i := range steps {
			if is(&steps[i]) {
				got = append(got, i)
			}
		}
		expect.Equal(t, fmt.Sprint(got), c.want, "of %v the %d longest", c.took, c.n)
	}
}
