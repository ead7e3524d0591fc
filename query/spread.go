package query

import (
	"math/bits"
	"sync"

	"github.com/entrace-go/entrace/internal/columns"
	"github.com/entrace-go/entrace/view"
)

// A spread is how many of many durations have about which size. It says which few of them have to
// be looked at once more for an exact quantile.
type spread struct {
	counts [spreadBuckets]uint32
	wanted [spreadBuckets]bool
	values []int64 // those in the buckets that are wanted
}

// A bucket has durations that are alike in their first spreadBits bits behind the highest one.
const (
	spreadBits    = 5
	spreadBuckets = (65 - spreadBits) << spreadBits
	// maxSpreads is how many groups have one, each of 10 kB.
	maxSpreads = 1 << 10
)

func spreadBucket(d int64) int {
	shift := max(0, bits.Len64(uint64(d))-1-spreadBits)
	return shift<<spreadBits + int(uint64(d)>>shift)
}

// find returns the bucket of the value that has so many before it, and how many of those are in
// other buckets.
func (s *spread) find(rank int64) (bucket int, before int64) {
	for bucket < len(s.counts)-1 && before+int64(s.counts[bucket]) <= rank {
		before += int64(s.counts[bucket])
		bucket++
	}
	return bucket, before
}

// quantile returns an exact quantile of n values, whose bucket was wanted.
func (s *spread) quantile(q float64, n int64) int64 {
	bucket, before := s.find(rank(q, n))
	var list []int64
	for _, d := range s.values {
		if spreadBucket(d) == bucket {
			list = append(list, d)
		}
	}
	return nth(list, int(rank(q, n)-before))
}

// sortOut finds the durations that the quantiles of groups need, in a second pass over the rows.
// The accumulators are those of keep for each of the codes' keys.
func (m *machine) sortOut(keep []keeps, c *codes, rows view.Set[view.Row], accs []accumulator) error {
	spreads := false
	for i := range accs {
		a := &accs[i]
		if a.kept == nil || a.spread == nil {
			continue
		}
		for _, q := range keep[i%len(keep)].args {
			bucket, _ := a.spread.find(rank(q, a.n))
			a.spread.wanted[bucket] = true
		}
		spreads = true
	}
	if !spreads {
		return nil
	}
	var mu sync.Mutex
	return m.v.Columns().Each(m.ctx, func() func(k int) {
		return func(k int) {
			b := m.v.Columns().Block(k)
			codes := c.of(&b)
			var found []struct {
				s *spread
				d int64
			}
			for w, word := range rows[k*words64 : (k+1)*words64] {
				for ; word != 0; word &= word - 1 {
					i := w*64 + bits.TrailingZeros64(word)
					d := b.Duration[i]
					if d == columns.NoDuration || view.Flags(b.Flags[i]).Role() != view.RoleSpan {
						continue
					}
					n := c.group[codes[i]] * len(keep)
					for x := range keep {
						if a := &accs[n+x]; a.kept != nil && a.spread != nil && a.spread.wanted[spreadBucket(d)] {
							found = append(found, struct {
								s *spread
								d int64
							}{a.spread, d})
						}
					}
				}
			}
			mu.Lock()
			defer mu.Unlock()
			for _, f := range found {
				f.s.values = append(f.s.values, f.d)
			}
		}
	})
}
