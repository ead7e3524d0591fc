package sink

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/entrace-go/entrace/internal/otel/codec"
)

// TestDue adds spans of random parents, some of which are each other's ancestors, and asks for them in the order of
// the input. Each span must be due once, and after its parent if this is possible. The second round reuses the index.
func TestDue(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	ix := new(Index)
	for range 2 {
		const n = 20_000
		ups := make([]int, n) // the number of the parent, or a negative number
		trace := [16]byte{1}
		id := func(i int) *[8]byte { return &[8]byte{1, byte(i >> 16), byte(i >> 8), byte(i)} }
		ix.Reset(nil)
		for i := range ups {
			parent := new([8]byte)
			ups[i] = random.IntN(n+n/10) - n/10
			if ups[i] >= 0 {
				parent = id(ups[i])
			}
			ix.Span(int64(i), &trace, id(i), parent)
		}
		ix.EndScope(codec.Head{})
		ix.EndResource(codec.Head{})
		var order []int
		all := func(int, int) bool { return true }
		for i := range ix.Len() {
			order = append(order, ix.Due(i, all)...)
		}
		at := make([]int, n)
		for place, i := range order {
			at[i] = place
		}
		if sorted := slices.Sorted(slices.Values(order)); len(slices.Compact(sorted)) != n || len(order) != n {
			t.Fatalf("%d spans are due, want each of %d once", len(order), n)
		}
		for i, up := range ups {
			if up >= 0 && at[up] > at[i] && !isAncestor(ups, i, up) {
				t.Errorf("span %d is before its parent %d", i, up)
			}
		}
	}
}

// isAncestor reports whether span a is an ancestor of span i.
func isAncestor(ups []int, a, i int) bool {
	for range ups {
		i = ups[i]
		if i < 0 || i == a {
			return i == a
		}
	}
	return false
}
