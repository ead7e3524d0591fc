package view_test

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/entrace-go/entrace/view"
)

// TestSample checks that a sample has one of each so many numbers of the set, and that it does not follow what the set
// has at equal distances.
func TestSample(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for range 300 {
		s, n := make(view.Set[view.Row], 1+r.IntN(40)), 1+r.IntN(300)
		for range r.IntN(64 * len(s)) {
			s.Add(view.Row(r.IntN(64 * len(s))))
		}
		all, step := slices.Collect(s.All()), max(1, s.Len()/n)
		got := slices.Collect(s.Sample(n))
		for i, x := range got {
			if !slices.Contains(all[i*step:min(len(all), (i+1)*step)], x) {
				t.Fatalf("number %d of a sample of %d of %d is %d", i, n, len(all), x)
			}
		}
		if len(got) < len(all)/step || len(got) > 2*n || !slices.Equal(got, slices.Collect(s.Sample(n))) {
			t.Fatalf("a sample of %d of %d has %d", n, len(all), len(got))
		}
		for range s.Sample(n) {
			break // it must stop
		}
	}
	s, counts := make(view.Set[view.Row], 1000), [5]int{}
	for i := range s {
		s[i] = 1<<64 - 1
	}
	for x := range s.Sample(len(s) * 64 / 10) {
		counts[x%5]++
	}
	for i, n := range counts {
		if n < 1000 || n > 1600 { // 1280, and the standard deviation is 32
			t.Errorf("%d of the sample are %d behind a multiple of 5", n, i)
		}
	}
}
