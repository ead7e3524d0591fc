package query

import (
	"math/bits"

	"github.com/entrace-go/entrace/internal/read/stat"
)

// A spread counts durations in buckets by size, to compute exact quantiles with little memory. The counts say in
// which bucket a quantile is. A second pass then collects only the durations of this bucket.
type spread struct {
	n      int64
	counts [spreadBuckets]uint32
	wanted [spreadBuckets]bool
	values []int64 // the durations in the wanted buckets, from the second pass
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

// find returns the bucket of the value with the given rank, and the number of values in the buckets before it.
func (s *spread) find(rank int64) (bucket int, before int64) {
	for bucket < len(s.counts)-1 && before+int64(s.counts[bucket]) <= rank {
		before += int64(s.counts[bucket])
		bucket++
	}
	return bucket, before
}

// quantile returns an exact quantile after the second pass. The bucket of the quantile must have been wanted in the
// second pass.
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

// maxTook is the maximum number of durations that are stored individually. maxTook durations need about as much
// memory as a spread.
var maxTook = 1 << 10

// durations collects durations to compute quantiles. It stores up to maxTook durations individually, and uses a
// spread for more.
type durations struct {
	all    []int64
	spread *spread
}

func (d *durations) add(x int64) {
	if d.spread != nil {
		d.spread.add(x)
		return
	}
	d.all = append(d.all, x)
	if len(d.all) > maxTook {
		d.makeSpread()
	}
}

// makeSpread moves the individually stored durations to a spread.
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

// want marks the buckets of the quantiles qs as wanted. If it returns true, a second pass is necessary before a
// quantile is computed: the caller passes all durations to addWanted, and appends the durations in the resulting list
// to the values of their spreads.
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
