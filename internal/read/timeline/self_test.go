package timeline_test

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/entrace-go/entrace/internal/read/timeline"
)

func TestSelfTimes(t *testing.T) {
	for _, x := range []struct {
		name   string
		in     []timeline.Interval
		outers []int32
		self   []int64
	}{
		{name: "none"},
		{
			name:   "children and a grandchild",
			in:     []timeline.Interval{{0, 100, -1, 0}, {10, 40, 0, 0}, {20, 30, 1, 0}, {40, 60, 0, 0}},
			outers: []int32{-1, 0, 1, 0},
			self:   []int64{50, 20, 10, 20},
		},
		{
			name:   "a child that overlaps its sibling has a lane of its own",
			in:     []timeline.Interval{{0, 100, -1, 0}, {10, 40, 0, 0}, {20, 60, 0, 0}},
			outers: []int32{-1, 0, -1},
			self:   []int64{70, 30, 40},
		},
		{
			name:   "a child that outlives its parent",
			in:     []timeline.Interval{{0, 10, -1, 0}, {5, 20, 0, 0}},
			outers: []int32{-1, -1},
			self:   []int64{10, 15},
		},
		{
			name:   "two groups",
			in:     []timeline.Interval{{0, 10, -1, 0}, {2, 4, -1, 1}},
			outers: []int32{-1, -1},
			self:   []int64{10, 2},
		},
		{
			name:   "nothing long at the end of a sibling and of a parent",
			in:     []timeline.Interval{{0, 20, -1, 0}, {0, 10, 0, 0}, {10, 10, 0, 0}, {20, 20, 0, 0}},
			outers: []int32{-1, 0, 0, 0},
			self:   []int64{10, 10, 0, 0},
		},
		{
			name:   "as long as can be",
			in:     []timeline.Interval{{math.MinInt64, math.MaxInt64, -1, 0}, {0, 5, 0, 0}},
			outers: []int32{-1, 0},
			self:   []int64{math.MaxInt64 - 5, 5},
		},
	} {
		lanes, order := timeline.Lanes(x.in)
		if got := timeline.Outers(x.in, lanes, order); !slices.Equal(got, x.outers) {
			t.Errorf("%s: outers %v, want %v", x.name, got, x.outers)
		}
		if got := timeline.SelfTimes(x.in, lanes, order); !slices.Equal(got, x.self) {
			t.Errorf("%s: self times %v, want %v", x.name, got, x.self)
		}
	}
}

// TestSelfTimesAddUp checks that the sum of the self times on a lane is the total time during which
// some interval is open on it.
func TestSelfTimesAddUp(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for range 200 {
		in := make([]timeline.Interval, 1+r.IntN(60))
		for i := range in {
			start := r.Int64N(100)
			in[i] = timeline.Interval{Start: start, End: start + r.Int64N(30), Parent: int32(r.IntN(i+1)) - 1, Group: int32(r.IntN(2))}
		}
		lanes, order := timeline.Lanes(in)
		outers, self := timeline.Outers(in, lanes, order), timeline.SelfTimes(in, lanes, order)
		type place struct{ group, lane int32 }
		got, want := make(map[place]int64), make(map[place]int64)
		open := make(map[place]map[int64]bool)
		for i, v := range in {
			at := place{v.Group, lanes[i]}
			got[at] += self[i]
			if open[at] == nil {
				open[at] = make(map[int64]bool)
			}
			for n := v.Start; n < v.End; n++ {
				open[at][n] = true
			}
			if o := outers[i]; o >= 0 && (in[o].Start > v.Start || in[o].End < v.End || lanes[o] != lanes[i] || in[o].Group != v.Group) {
				t.Fatalf("%v is not in %v", v, in[o])
			}
			if self[i] < 0 {
				t.Errorf("%v has a self time of %d", v, self[i])
			}
		}
		for at := range open {
			want[at] = int64(len(open[at]))
			if got[at] != want[at] {
				t.Fatalf("lane %v: self times sum up to %d, want %d\n%v\n%v", at, got[at], want[at], in, lanes)
			}
		}
	}
}
