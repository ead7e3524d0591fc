package main

import (
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/entrace-go/entrace/format"
	"github.com/entrace-go/entrace/internal/testkit/tracetest"
)

// TestTailOfLargeTraceReadsItsEnd checks that tail reads only the end of a large trace, also to find out how the
// trace ended: for a file of four times the size, it allocates no more memory.
func TestTailOfLargeTraceReadsItsEnd(t *testing.T) {
	if tracetest.Race {
		t.Skip("it writes large files, and counts what is allocated")
	}
	for _, f := range []format.StorageFormat{format.ET, format.IET} {
		for _, version := range []format.Version{format.V1, format.V2} {
			for _, flag := range []string{"-n=10", "-f"} {
				if flag == "-f" && f == format.IET {
					continue // tail waits for new entries
				}
				var costs [2]uint64
				for i, size := range []int{20 << 20, 80 << 20} {
					name := filepath.Join(t.TempDir(), "x."+f.String())
					tracetest.WriteMany(t, name, version, f, size, false)
					var before, after runtime.MemStats
					runtime.ReadMemStats(&before)
					code, out, errs := entrace(t, nil, "tail", flag, name)
					runtime.ReadMemStats(&after)
					costs[i] = after.TotalAlloc - before.TotalAlloc
					if code != 0 || strings.Count(out, "\n") != 10 {
						t.Fatalf("%v, version %v, %s: %d, %d lines, %s", f, version, flag, code, strings.Count(out, "\n"), errs)
					}
				}
				if costs[1] > costs[0]+costs[0]/4+4<<20 {
					t.Errorf("%v, version %v, %s: it allocates %d bytes, of a quarter of the size %d", f, version, flag, costs[1], costs[0])
				}
			}
		}
	}
}
