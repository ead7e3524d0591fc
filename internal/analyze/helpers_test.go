package analyze_test

import (
	"testing"

	"github.com/entrace-go/entrace/internal/testkit/expect"
	"github.com/entrace-go/entrace/internal/testkit/hosttest"
	"github.com/entrace-go/entrace/internal/testkit/querytest"
)

var (
	must         = expect.Must
	viewOf       = querytest.View
	runOn        = querytest.Run
	everything   = querytest.Everything
	hasException = querytest.HasException
	span         = querytest.Span
	shop         = querytest.Shop
	fixed        = querytest.Fixed
)

// long skips a test with -short, and so under the race detector, because it computes for a long time and starts no
// goroutine.
func long(t *testing.T) {
	t.Helper()
	if testing.Short() {
		t.Skip("computes for a long time")
	}
}

// seeds returns the number of seeds for random noise: usual, or ci in CI.
func seeds(usual, ci int) uint64 { return uint64(hosttest.InCI(usual, ci)) }
