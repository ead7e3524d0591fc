package main

import (
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/entrace-go/entrace/format"
	"github.com/entrace-go/entrace/internal/testkit/hosttest"
	"github.com/entrace-go/entrace/internal/testkit/tracetest"
)

// TestTailOfLargeTraceReadsItsEnd checks that tail reads only the end of a large trace, also to find out how the
// trace ended: for a file of twice the size, it allocates no more memory.
func TestTailOfLargeTraceReadsItsEnd(t *testing.T) {
	if tracetest.Race {
		t.Skip("it writes large files, and counts what is allocated")
	}
	for _, f := range []format.StorageFormat{format.ET, format.IET} {
		flags := []string{"-n=10", "-f"}
		if f == format.IET {
			flags = flags[:1] // with -f, tail waits for new entries
		}
		for _, version := range tracetest.BothVersions {
			costs := make(map[string]uint64)
			for _, size := range []int{17 << 20, 34 << 20} { // of less than 16 MB, tail reads everything
				name := filepath.Join(hosttest.MemoryDir(t), "x."+f.String())
				tracetest.WriteMany(t, name, version, f, size, false)
				for _, flag := range flags {
					var before, after runtime.MemStats
					runtime.ReadMemStats(&before)
					code, out, errs := entrace(t, nil, "tail", flag, name)
					runtime.ReadMemStats(&after)
					if code != 0 || strings.Count(out, "\n") != 10 {
						t.Fatalf("%v, version %v, %s: %d, %d lines, %s", f, version, flag, code, strings.Count(out, "\n"), errs)
					}
					cost := after.TotalAlloc - before.TotalAlloc
					if half := costs[flag]; half > 0 && cost > half+half/4+1<<20 {
						t.Errorf("%v, version %v, %s: it allocates %d bytes, of half the size %d", f, version, flag, cost, half)
					}
					costs[flag] = cost
				}
				must(t, os.Remove(name))
			}
		}
	}
}
