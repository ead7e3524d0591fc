package view_test

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/entrace-go/entrace/view"
)

// TestSample compares a sample with every so manieth number of the set.
func TestSample(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for range 300 {
		s, n := make(view.Set[view.Row], 1+r.IntN(40)), 1+r.IntN(300)
		for range r.IntN(64 * len(s)) {
			s.Add(view.Row(r.IntN(64 * len(s))))
		}
		var want []view.Row
		step, i := max(1, s.Len()/n), 0
		for x := range s.All() {
			if i++; i%step == 0 {
				want = append(want, x)
			}
		}
		if got := slices.Collect(s.Sample(n)); !slices.Equal(got, want) || len(got) < min(n, s.Len()) || len(got) >= 2*n {
			t.Fatalf("a sample of %d of %d has %d, want %d", n, s.Len(), got, want)
		}
		for range s.Sample(n) {
			break // it must stop
		}
	}
}
