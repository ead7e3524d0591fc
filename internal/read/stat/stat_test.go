package stat_test

import (
	"math"
	"testing"

	"github.com/entrace-go/entrace/internal/read/stat"
	"github.com/entrace-go/entrace/internal/testkit/expect"
)

// TestMoreOften compares results with sums of exact binomial coefficients.
func TestMoreOften(t *testing.T) {
	for _, c := range []struct {
		with, rows [2]int
		want       float64
	}{
		{[2]int{3, 1}, [2]int{4, 4}, 17. / 70}, // the lady tasting tea
		{[2]int{8, 1}, [2]int{10, 6}, 0.024475524475524476},
		{[2]int{2, 20}, [2]int{2, 2000}, 0.00011532695190866105},
		{[2]int{500, 400}, [2]int{1000, 1000}, 4.226859837242821e-06},
		{[2]int{30, 100}, [2]int{40_000, 900_000}, 2.8833357137142254e-14},
		{[2]int{0, 5}, [2]int{3, 9}, 1},
	} {
		if got := math.Pow(10, -stat.MoreOften(c.with[0], c.rows[0], c.with[1], c.rows[1])); math.Abs(got/c.want-1) > 1e-6 {
			t.Errorf("%d of %d: got %g, want %g", c.with, c.rows, got, c.want)
		}
	}
}

// TestAtLeast: a certain event has a significance of 0.
func TestAtLeast(t *testing.T) {
	expect.Equal(t, stat.AtLeast(10, 10, 1), 0, "10 of 10 with probability 1")
	if got := stat.AtLeast(3, 3, .1); math.Abs(got-3) > 1e-9 {
		t.Errorf("3 of 3 with probability .1: got %g, want 3", got)
	}
}
