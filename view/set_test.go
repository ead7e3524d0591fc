package view_test

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/entrace-go/entrace/view"
)

// TestSample checks that a sample has about as many numbers as requested, and that it is independent of patterns
// at even distances in the set.
func TestSample(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for range 300 {
		s, n := make(view.Set[view.Row], 1+r.IntN(40)), 1+r.IntN(300)
		for range r.IntN(64 * len(s)) {
			s.Add(view.Row(r.IntN(64 * len(s))))
		}
		all, got := slices.Collect(s.All()), slices.Collect(s.Sample(n))
		for i, x := range got {
			if !s.Has(x) || i > 0 && got[i-1] >= x {
				t.Fatalf("number %d of a sample of %d of %d is %d", i, n, len(all), x)
			}
		}
		off := 6 * math.Sqrt(float64(n))
		if n >= len(all) {
			off = 0
		}
		if math.Abs(float64(len(got)-min(n, len(all)))) > off || !slices.Equal(got, slices.Collect(s.Sample(n))) {
			t.Fatalf("a sample of %d of %d has %d", n, len(all), len(got))
		}
		for range s.Sample(n) {
			break // it must stop
		}
	}
	s, counts, together := make(view.Set[view.Row], 1000), [5]int{}, 0
	for i := range s {
		s[i] = 1<<64 - 1
	}
	last := view.Row(0)
	for x := range s.Sample(len(s) * 64 / 10) {
		counts[x%5]++
		if x == last+1 {
			together++
		}
		last = x
	}
	if together < 400 || together > 900 { // 640 are expected
		t.Errorf("%d of the sample are beside the one before", together)
	}
	for i, n := range counts {
		if n < 1000 || n > 1600 { // 1280 are expected, with a standard deviation of 32
			t.Errorf("%d of the sample are %d behind a multiple of 5", n, i)
		}
	}
}
