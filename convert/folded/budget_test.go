package folded_test

import (
	"strings"
	"testing"

	"github.com/entrace-go/entrace/convert/folded"
	"github.com/entrace-go/entrace/format"
	"github.com/entrace-go/entrace/internal/testkit/converttest"
)

// A counter counts the bytes that are written to it.
type counter struct{ n int64 }

func (c *counter) Write(b []byte) (int, error) {
	c.n += int64(len(b))
	return len(b), nil
}

// TestFoldedLongNames encodes a deep stack of long names. Each line has all names of a stack, so without a limit
// the output of a small trace could have any size.
func TestFoldedLongNames(t *testing.T) {
	const n = 1000
	entries := []*format.TraceEntry{resource("a")}
	size := 0
	for i := range 500 {
		name := strings.Repeat("x", 2*n)
		size += len(name)
		entries = append(entries, span(uint32(i+2), uint32(i+1), name, 0, n))
	}
	for i := range n {
		name := "l" + strings.Repeat("y", i%30) + string(rune('A'+i/30%26)) + string(rune('A'+i/780))
		entries = append(entries, span(uint32(i+502), 501, name, int64(i), int64(i+1)))
	}
	var c counter
	converttest.Must(t, folded.EncodeFolded(t.Context(), &c, viewOf(t, entries...)))
	if c.n == 0 || c.n > 40*int64(size) {
		t.Errorf("%d bytes of names became %d", size, c.n)
	}
}
