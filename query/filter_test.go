package query_test

import (
	"math"
	"testing"

	"github.com/entrace-go/entrace/query"
)

// TestNumbersAtTheEdges: comparisons of columns, which are ranges, mean the same as Go's operators at the smallest and
// greatest numbers and around 0. A row without a number is never selected.
func TestNumbersAtTheEdges(t *testing.T) {
	edges := []int64{math.MinInt64, math.MinInt64 + 1, math.MinInt64 / 2, -2, -1, 0, 1, 2, math.MaxInt64 / 2, math.MaxInt64 - 1, math.MaxInt64}
	for _, op := range []string{"=", "!=", "<", "<=", ">", ">="} {
		for _, n := range edges {
			for _, none := range append(edges, 7) {
				for i, got := range query.Comparing(edges, none, op, n) {
					if want := edges[i] != none && cmpInts(op, edges[i], n); got != want {
						t.Errorf("%d %s %d is %t, want %t; no number is %d", edges[i], op, n, got, want, none)
					}
				}
			}
		}
	}
}

func TestFieldsDependOnlyOnUsedFlags(t *testing.T) {
	if query.UsesFlags() {
		t.Error("a field depends on a flag above the used ones")
	}
}
