package format_test

import (
	"flag"
	"runtime/debug"
	"testing"

	"github.com/entrace-go/entrace/format"
	"github.com/entrace-go/entrace/internal/testkit/tracetest"
)

var update = flag.Bool("update", false, "write testdata/damage.txt again")

// TestDamage damages traces field by field, and compares the result of every reader with damage.txt.
func TestDamage(t *testing.T) {
	defer debug.SetGCPercent(debug.SetGCPercent(1000)) // every reader has a buffer of up to 256 KiB
	tracetest.Golden(t, "testdata/damage.txt", *update, func(line string) (said string) {
		t.Run(line, func(t *testing.T) { said = format.Damaged(t, line) })
		return said
	})
}
