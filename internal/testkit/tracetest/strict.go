package tracetest

import (
	"flag"
	"sync"

	"github.com/entrace-go/entrace/internal/core/entrybytes"
)

// Make readers overwrite the memory that they lend at their next call, so that all tests that import this package
// find code that keeps such memory. Benchmarks measure readers without this.
func init() {
	entrybytes.Overwrite = sync.OnceValue(func() bool {
		bench := flag.Lookup("test.bench")
		return bench == nil || bench.Value.String() == ""
	})
}
