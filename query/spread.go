package query

import (
	"math/bits"

	"github.com/entrace-go/entrace/internal/read/stat"
)

// A spread counts durations in buckets by their approximate size. With these counts, an exact
// quantile only needs the durations of one bucket from a second pass.
type spread struct {
	n      int64
	counts [spreadBuckets]uint32
	wanted [spreadBuckets]bool
	values []int64 // the durations in the wanted buckets
}

// All durations of a bucket have the same highest bit and the same spreadBits bits after it.
const (
	spreadBits    = 5
	spreadBuckets = (65 - spreadBits) << spreadBits
)

func spreadBucket(d int64) int {
	shift := max(0, bits.Len64(uint64(d))-1-spreadBits)
	return shift<<spreadBits + int(uint64(d)>>shift)
}

func (s *spread) add(d int64) {
	s.n++
	s.counts[spreadBucket(d)]++
}

// A wanted is a duration that may be a quantile of a spread.
type wanted struct {
	s *spread
	d int64
}

// addWanted appends a duration to a list if it is in a wanted bucket of s, which may be nil.
func (s *spread) addWanted(list []wanted, d int64) []wanted {
	if s != nil && s.wanted[spreadBucket(d)] {
		list = append(list, wanted{s, d})
	}
	return list
}

// keepWanted keeps the durations of a list in their spreads.
func keepWanted(list []wanted) {
	for _, x := range list {
		x.s.values = append(x.s.values, x.d)
	}
}

// find returns the bucket of the value with the given rank. It also returns the number of values in
// all buckets before it.
func (s *spread) find(rank int64) (bucket int, before int64) {
	for bucket < len(s.counts)-1 && before+int64(s.counts[bucket]) <= rank {
		before += int64(s.counts[bucket])
		bucket++
	}
	return bucket, before
}

// quantile returns an exact quantile. Its bucket must be wanted, and the second pass must be done.
func (s *spread) quantile(q float64) int64 {
	bucket, before := s.find(stat.Rank(q, s.n))
	var list []int64
	for _, d := range s.values {
		if spreadBucket(d) == bucket {
			list = append(list, d)
		}
	}
	return stat.Nth(list, int(stat.Rank(q, s.n)-before))
}

// maxTook is the maximum number of durations that are kept one by one. They take about as much
// memory as a spread.
var maxTook = 1 << 10

// durations collects durations to compute quantiles. It keeps up to maxTook of them one by one. If
// there are more, it keeps a spread.
type durations struct {
	all    []int64
	spread *spread
}

func (d *durations) add(x int64) {
	if d.spread != nil {
		d.spread.add(x)
		return
	}
	if d.all = append(d.all, x); len(d.all) > maxTook {
		d.makeSpread()
	}
}

// makeSpread moves the durations that were kept one by one to a spread.
func (d *durations) makeSpread() {
	if d.spread == nil {
		d.spread = new(spread)
	}
	for _, x := range d.all {
		d.spread.add(x)
	}
	d.all = nil
}

// merge adds the durations of b.
func (d *durations) merge(b *durations) {
	d.all = append(d.all, b.all...)
	if d.spread == nil && b.spread == nil {
		return
	}
	d.makeSpread()
	if b.spread != nil {
		d.spread.n += b.spread.n
		for i, n := range b.spread.counts {
			d.spread.counts[i] += n
		}
	}
}

// want announces the quantiles that will be asked for. If it returns true, all durations must
// be passed to addWanted, and the result to keepWanted, before the call of quantile.
func (d *durations) want(qs []float64) bool {
	if d.spread == nil {
		return false
	}
	for _, q := range qs {
		bucket, _ := d.spread.find(stat.Rank(q, d.spread.n))
		d.spread.wanted[bucket] = true
	}
	return true
}

// quantile returns an exact quantile of the durations. There must be at least one.
func (d *durations) quantile(q float64) int64 {
	if d.spread != nil {
		return d.spread.quantile(q)
	}
	return stat.Quantile(d.all, q)
}
