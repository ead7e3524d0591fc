package main

import (
	"io"
	"os"
	"runtime"
	"strings"
	"testing"

	"github.com/entrace-go/entrace/format"
	"github.com/entrace-go/entrace/internal/wire"
)

// TestTreeLinesAllocateLittle: a line of the tree is printed into memory that the line before used.
func TestTreeLinesAllocateLittle(t *testing.T) {
	t.Chdir(t.TempDir())
	allocations := func(requests int) int {
		b := format.AppendTraceEntry(wire.AppendMagic(nil, format.V1, format.IET), format.V1, format.Root())
		for i := range requests {
			up := 1 + 5*i
			for k := range 5 {
				e := spanOf(5*i+k, up)
				if k == 0 {
					e.Parent = 0
				}
				e.Attributes = append(e.Attributes,
					format.Attribute{Name: "db.rows", Value: format.U64Value(uint64(k))},
					format.Attribute{Name: "db.system", Value: format.StringValue("postgres")})
				b = format.AppendTraceEntry(b, format.V1, e)
			}
		}
		must(t, os.WriteFile("t.iet", b, 0o600))
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		if code := run(t.Context(), []string{"tree", "t.iet"}, strings.NewReader(""), io.Discard, io.Discard); code != exitFine {
			t.Fatal("exit", code)
		}
		runtime.ReadMemStats(&after)
		return int(after.Mallocs - before.Mallocs)
	}
	const n = 2000
	small, large := allocations(n), allocations(3*n)
	if each := float64(large-small) / (2 * 5 * n); each > 1 {
		t.Errorf("a line takes %.1f allocations, want at most 1", each)
	} else {
		t.Logf("a line takes %.2f allocations", each)
	}
}
