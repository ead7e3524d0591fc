package query

import "math/bits"

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
	bucket, before := s.find(rank(q, s.n))
	var list []int64
	for _, d := range s.values {
		if spreadBucket(d) == bucket {
			list = append(list, d)
		}
	}
	return nth(list, int(rank(q, s.n)-before))
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

// len returns the number of durations that were added.
func (d *durations) len() int64 {
	if d.spread != nil {
		return d.spread.n
	}
	return int64(len(d.all))
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

// want announces the quantiles that will be asked for. If it returns true, all durations that
// are wanted must be passed to addWanted before the call of quantile.
func (d *durations) want(qs []float64) bool {
	if d.spread == nil {
		return false
	}
	for _, q := range qs {
		bucket, _ := d.spread.find(rank(q, d.spread.n))
		d.spread.wanted[bucket] = true
	}
	return true
}

// isWanted reports whether x must be passed to addWanted.
func (d *durations) isWanted(x int64) bool {
	return d.spread != nil && d.spread.wanted[spreadBucket(x)]
}

func (d *durations) addWanted(x ...int64) { d.spread.values = append(d.spread.values, x...) }

// quantile returns an exact quantile of the durations. There must be at least one.
func (d *durations) quantile(q float64) int64 {
	if d.spread != nil {
		return d.spread.quantile(q)
	}
	return quantile(d.all, q)
}
