package viewer_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/entrace-go/entrace/format"
	"github.com/entrace-go/entrace/internal/testkit/expect"
	"github.com/entrace-go/entrace/internal/testkit/tracetest"
)

// TestWhyHasProcessorTime checks the processor time and the functions of a span. They come from the samples at and
// below the span, or if these are few, from the samples of all spans of the same name.
func TestWhyHasProcessorTime(t *testing.T) {
	all := []*format.TraceEntry{format.Root()}
	span := func(parent uint32, name string) uint32 {
		n := uint32(len(all))
		all = append(all, tracetest.Below(parent, tracetest.Entry(name,
			format.AttrSpanID, fmt.Sprintf("%016x", n), format.AttrTraceID, fmt.Sprintf("%032x", n),
			format.AttrTime, uint64(1000*ms), format.AttrDuration, uint64(500*ms),
		)))
		return n
	}
	sample := func(parent uint32, took uint64, functions ...string) {
		for i := range functions {
			functions[i] = fmt.Sprintf("%s /src/%s.go:%d", functions[i], functions[i], i+1)
		}
		all = append(all, &format.TraceEntry{Parent: parent, Metadata: format.Metadata{Name: "cpu.profile", Target: "runtime/pprof"}, Attributes: tracetest.Attributes(format.AttrTime, uint64(1000*ms), "cpu_nano", took*ms, "stack", strings.Join(functions, "\n"))})
	}
	long := span(0, "get")
	below := span(long, "scale")
	short := span(0, "get")
	other := span(0, "put")
	sample(below, 150, "block", "scale", "main")
	sample(long, 50, "block", "decode", "main")
	sample(short, 20, "block", "scale", "scale", "main")
	sample(0, 40, "idle")
	h := served(t, all)
	type function struct {
		Name        string
		Line        int
		Self, Total float64
	}
	type cpu struct {
		Own       int64 `json:"own_nano"`
		All       int64 `json:"all_nano"`
		OfSpan    bool
		Functions []function
	}
	why := func(row uint32) *cpu {
		return jsonOf[struct{ CPU *cpu }](t, h, fmt.Sprint("/api/why?row=", row)).CPU
	}
	for row, want := range map[uint32]*cpu{
		long:  {200000000, 220000000, true, []function{{"block", 1, 1, 1}, {"scale", 2, 0, .75}, {"decode", 2, 0, .25}}},
		short: {20000000, 220000000, false, []function{{"block", 1, 1, 1}, {"scale", 2, 0, 170. / 220}, {"decode", 2, 0, 50. / 220}}},
		below: {150000000, 150000000, true, []function{{"block", 1, 1, 1}}},
		other: nil,
	} {
		expect.DeepEqual(t, why(row), want, "row %d", row)
	}
}
