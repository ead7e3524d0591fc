package tracetest

import (
	"flag"
	"sync"

	"github.com/entrace-go/entrace/internal/core/entrybytes"
)

// Tests that import this package find code that keeps what a reader has lent it: the reader overwrites
// that at its next call. Benchmarks measure readers as they are.
func init() {
	entrybytes.Overwrite = sync.OnceValue(func() bool {
		bench := flag.Lookup("test.bench")
		return bench == nil || bench.Value.String() == ""
	})
}
