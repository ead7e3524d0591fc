package main

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/entrace-go/entrace/format"
	"github.com/entrace-go/entrace/internal/testkit/tracetest"
)

// TestTopSaysWhatGrows: top and explain say what the samples of the runtime show, without acting on the terminal.
func TestTopSaysWhatGrows(t *testing.T) {
	x := tracetest.New(t, format.V2, format.ET, format.Root())
	for i := range uint64(12) {
		x.Add(&format.TraceEntry{Metadata: format.Metadata{Name: "runtime.metrics", Target: "runtime/metrics"}, Attributes: []format.Attribute{
			{Name: format.AttrTime, Value: format.U64Value(1e18 + i*1e9)}, {Name: "/sched/goroutines:goroutines", Value: format.U64Value(20 + 2000*i)},
		}})
	}
	for i := range 2 {
		x.Add(&format.TraceEntry{
			Message: format.Some("main.\x1bwait"), Metadata: format.Metadata{Name: "goroutines", Target: "runtime/pprof"},
			Attributes: []format.Attribute{{Name: format.AttrTime, Value: format.U64Value(1e18 + 12e9)}, {Name: "count", Value: format.U64Value(uint64(9 * (i + 1)))}, {Name: "stack", Value: format.StringValue(strings.Repeat("x", i))}},
		})
	}
	name := filepath.Join(t.TempDir(), "leak.et")
	x.Save(name)
	want := "\nThe Go runtime\ngoroutines: 20 → 22020 in 11s\n18 goroutines in main.\\x1bwait, for 0 spans, 0 of which ended\n"
	for _, command := range []string{"top", "explain"} {
		if got := fine(t, nil, command, name); !strings.Contains(got, want) {
			t.Errorf("%s prints %q, want %q in it", command, got, want)
		}
	}
}
