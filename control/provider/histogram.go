package provider

import (
	"math"
	"runtime/metrics"
)

// A histogram describes the growth of a cumulative histogram of the runtime between two updates.
type histogram struct {
	count         uint64
	p50, p99, max float64

	seen []uint64 // the counts at the last update
	gain []uint64 // reused memory; the growth of each bucket
}

// update computes the growth from the last update to h. It does not keep h. For the first update, or if the
// buckets have changed, the growth is 0.
//
// The runtime continues to count while a histogram is read. So the counts of different buckets may come from
// different moments.
func (g *histogram) update(h *metrics.Float64Histogram) {
	g.count, g.p50, g.p99, g.max = 0, 0, 0, 0
	if len(h.Buckets) != len(h.Counts)+1 {
		g.seen = g.seen[:0]
		return
	}
	if len(g.seen) != len(h.Counts) {
		g.seen = append(g.seen[:0], h.Counts...)
		return
	}
	g.gain = g.gain[:0]
	for i, n := range h.Counts {
		d := n - min(n, g.seen[i])
		g.gain = append(g.gain, d)
		g.count += d
		g.seen[i] = n
	}
	if g.count == 0 {
		return
	}
	half, most := rank(0.5, g.count), rank(0.99, g.count)
	var below uint64
	for i, d := range g.gain {
		if d == 0 {
			continue
		}
		bound := upper(h.Buckets, i)
		if below < half && below+d >= half {
			g.p50 = bound
		}
		if below < most && below+d >= most {
			g.p99 = bound
		}
		g.max = bound
		below += d
	}
}

// rank returns the position of the q-quantile among count sorted values, counted from 1.
func rank(q float64, count uint64) uint64 {
	return min(max(uint64(math.Ceil(q*float64(count))), 1), count)
}

// upper returns the upper bound of bucket i. If it is infinite, upper returns the lower bound, or 0 if both
// are infinite.
func upper(buckets []float64, i int) float64 {
	switch lo, hi := buckets[i], buckets[i+1]; {
	case !math.IsInf(hi, 0):
		return hi
	case !math.IsInf(lo, 0):
		return lo
	}
	return 0
}
