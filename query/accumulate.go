package query

import (
	"cmp"
	"maps"
	"math"
	"slices"
)

// An accumulator computes one aggregate. What it says does not depend on the order in which the
// values come, so that it is the same however they are spread over goroutines.
type accumulator struct {
	n    int64 // values that are there
	kind Kind  // of the numbers: durations stay durations
	*kept
}

// kept is what an accumulator keeps besides their number, nil until there is a value.
type kept struct {
	best    Value // of min and max
	sums    *sums
	ints    []int64  // of quantiles, as are the next two
	uints   []uint64 // from 2^63 on
	floats  []float64
	values  map[string]*counted // by key
	buckets map[int]int64       // of a histogram
	spread  *spread             // of the durations of which quantiles are computed
}

// counted is a value, and how often it is there.
type counted struct {
	value Value
	n     int64
}

// keeps says what an accumulator has to keep.
type keeps struct {
	fn       string
	value    eval
	args     []float64 // of all calls
	duration bool      // value is the duration of the row
}

func (a *accumulator) add(k *keeps, v Value) {
	if k.fn == "count" {
		a.n++
		return
	}
	if v.kind == KindNil {
		return
	}
	if a.kept == nil {
		a.kept = new(kept)
	}
	switch k.fn {
	case "values":
		a.addCounted(string(appendKey(nil, v)), canonical(v), 1)
		return
	case "min", "max":
		a.extreme(k.fn, v)
		return
	}
	f, ok := v.number()
	if !ok || math.IsNaN(f) {
		return
	}
	a.kind = a.kindWith(v.kind)
	a.n++
	switch k.fn {
	case "sum", "avg", "stddev":
		if a.sums == nil {
			a.sums = &sums{withSquares: k.fn == "stddev"}
		}
		a.sums.add(v)
	case "histogram":
		if a.buckets == nil {
			a.buckets = make(map[int]int64)
		}
		a.buckets[bucketOf(f)]++
	default: // quantiles
		switch v.kind {
		case KindFloat:
			a.floats = append(a.floats, f)
		case KindUint:
			a.uints = append(a.uints, uint64(v.n))
		default:
			a.ints = append(a.ints, v.n)
		}
	}
}

// addQuantile is add of a duration whose quantiles are computed.
func (a *accumulator) addQuantile(d int64, spreads bool) {
	a.n++
	a.kind = KindDuration
	if a.kept == nil {
		a.kept = new(kept)
	}
	if !spreads {
		a.ints = append(a.ints, d)
		return
	}
	if a.spread == nil {
		a.spread = new(spread)
	}
	a.spread.counts[spreadBucket(d)]++
}

func (a *accumulator) addCounted(key string, v Value, n int64) {
	if a.values == nil {
		a.values = make(map[string]*counted)
	}
	c := a.values[key]
	if c == nil {
		c = &counted{value: v}
		a.values[key] = c
	}
	c.n += n
}

// kindWith returns the kind of the values with one more of a kind: that of all, or a time or
// duration if numbers are beside it, or a float.
func (a *accumulator) kindWith(k Kind) Kind {
	if k == KindUint {
		k = KindInt
	}
	switch {
	case a.n == 0 || a.kind == k:
		return k
	case a.kind == KindFloat || k == KindFloat:
		return KindFloat
	}
	return max(a.kind, k)
}

// extreme keeps a value if it is the least or the largest: among numbers if there is one, else
// among texts, and so on.
func (a *accumulator) extreme(fn string, v Value) {
	n := orderAll(v, a.best)
	if fn == "max" && v.class() == a.best.class() {
		n = -n
	}
	// Numbers that are equal can be of two kinds: one of them is always kept.
	if n < 0 || n == 0 && v.kind < a.best.kind {
		a.best = v
	}
}

// merge adds what another goroutine has accumulated.
func (a *accumulator) merge(k *keeps, b *accumulator) {
	if b.kept == nil {
		a.n += b.n
		return
	}
	if a.kept == nil {
		*a = *b
		return
	}
	if b.best.kind != KindNil {
		a.extreme(k.fn, b.best)
	}
	if b.n > 0 {
		a.kind = a.kindWith(b.kind)
	}
	a.n += b.n
	switch {
	case a.sums == nil:
		a.sums = b.sums
	case b.sums != nil:
		a.sums.merge(b.sums)
	}
	a.ints = append(a.ints, b.ints...)
	a.uints = append(a.uints, b.uints...)
	a.floats = append(a.floats, b.floats...)
	switch {
	case a.spread == nil:
		a.spread = b.spread
	case b.spread != nil:
		for i, n := range b.spread.counts {
			a.spread.counts[i] += n
		}
	}
	if a.buckets == nil {
		a.buckets = b.buckets
	} else {
		for bucket, n := range b.buckets {
			a.buckets[bucket] += n
		}
	}
	for key, c := range b.values {
		a.addCounted(key, c.value, c.n)
	}
}

// of returns f as a value of the kind that was accumulated.
func (a *accumulator) of(f float64) Value {
	if a.kind == KindDuration || a.kind == KindTime {
		return Value{kind: a.kind, n: int64(math.Round(f))}
	}
	return floatValue(f)
}

// results returns the columns of an aggregate.
func (a *accumulator) results(k *keeps) []Value {
	switch k.fn {
	case "count":
		return []Value{intValue(a.n)}
	case "min", "max":
		if a.kept == nil {
			return []Value{{}}
		}
		return []Value{a.best}
	}
	if a.n == 0 {
		return make([]Value, max(1, len(k.args)))
	}
	switch k.fn {
	case "sum":
		return []Value{a.sums.sum(a.kind)}
	case "avg":
		return []Value{a.sums.mean(a.kind)}
	case "stddev":
		kind := a.kind
		if kind == KindTime {
			kind = KindDuration
		}
		return []Value{a.sums.deviation(kind)}
	}
	return a.quantiles(k.args)
}

// quantiles returns exact quantiles: the smallest value that at least that share of all values
// does not exceed.
func (a *accumulator) quantiles(qs []float64) []Value {
	out := make([]Value, len(qs))
	if a.spread != nil {
		for i, q := range qs {
			out[i] = Value{kind: a.kind, n: a.spread.quantile(q, a.n)}
		}
		return out
	}
	switch {
	case len(a.floats) == 0:
		for i, q := range qs {
			if r := rank(q, a.n) - int64(len(a.ints)); r < 0 {
				out[i] = Value{kind: a.kind, n: nth(a.ints, int(rank(q, a.n)))}
			} else {
				out[i] = uintValue(nth(a.uints, int(r)))
			}
		}
	case int64(len(a.floats)) == a.n:
		for i, q := range qs {
			out[i] = floatValue(Quantile(a.floats, q))
		}
	default:
		var all []Value
		for _, n := range a.ints {
			all = append(all, intValue(n))
		}
		for _, n := range a.uints {
			all = append(all, uintValue(n))
		}
		for _, f := range a.floats {
			all = append(all, floatValue(f))
		}
		slices.SortFunc(all, func(x, y Value) int { return cmp.Or(orderAll(x, y), cmp.Compare(x.kind, y.kind)) })
		for i, q := range qs {
			out[i] = all[rank(q, a.n)]
		}
	}
	return out
}

// Quantile returns the smallest of values that at least the share q of them does not exceed. It
// changes the order of values, of which there is at least one.
func Quantile[T int64 | float64](values []T, q float64) T {
	return nth(values, int(rank(q, int64(len(values)))))
}

// rank returns how many of n sorted values come before the quantile.
func rank(q float64, n int64) int64 {
	return min(max(int64(math.Ceil(q*float64(n)))-1, 0), n-1)
}

// nth returns the value that is at k once values are sorted. It changes their order.
func nth[T int64 | uint64 | float64](values []T, k int) T {
	lo, hi := 0, len(values)-1
	for lo < hi {
		if hi-lo < 32 {
			slices.Sort(values[lo : hi+1])
			break
		}
		// The median of three; what is equal to it is in the middle then.
		mid := lo + (hi-lo)/2
		a, b, c := values[lo], values[mid], values[hi]
		pivot := max(min(a, b), min(max(a, b), c))
		lt, i, gt := lo, lo, hi
		for i <= gt {
			switch {
			case values[i] < pivot:
				values[i], values[lt] = values[lt], values[i]
				lt++
				i++
			case values[i] > pivot:
				values[i], values[gt] = values[gt], values[i]
				gt--
			default:
				i++
			}
		}
		switch {
		case k < lt:
			hi = lt - 1
		case k > gt:
			lo = gt + 1
		default:
			return values[k]
		}
	}
	return values[k]
}

// A histogram's buckets are powers of two, each in four parts; bucket 0 is from 0 to 1, and those of
// numbers below 0 are the same the other way round. An infinity has one of its own.
const (
	bucketParts      = 4
	bucketOfInf      = math.MaxInt
	bucketOfMinusInf = math.MinInt
)

// bucketOf returns the bucket of a number: that with the largest lower end that is not above it.
func bucketOf(f float64) int {
	switch {
	case math.IsInf(f, 1):
		return bucketOfInf
	case math.IsInf(f, -1):
		return bucketOfMinusInf
	case f < 0:
		return -1 - bucketOf(-f)
	case f < 1:
		return 0
	}
	frac, exp := math.Frexp(f) // frac is from 0.5 on and below 1
	return 1 + (exp-1)*bucketParts + int((frac-0.5)*2*bucketParts)
}

// bucketEnds returns the ends of a bucket.
func bucketEnds(b int) (from, to float64) {
	switch {
	case b == bucketOfInf:
		return math.Inf(1), math.Inf(1)
	case b == bucketOfMinusInf:
		return math.Inf(-1), math.Inf(-1)
	case b < 0:
		from, to = bucketEnds(-1 - b)
		return 0 - to, 0 - from // and no -0
	case b == 0:
		return 0, 1
	}
	end := func(b int) float64 { return math.Ldexp(1+float64(b%bucketParts)/bucketParts, b/bucketParts) }
	return end(b - 1), end(b)
}

// maxBuckets is how many buckets of a histogram are shown with those between them that are empty.
const maxBuckets = 256

// histogram returns the buckets in their order, those between them that are empty included unless
// they are very many.
func (a *accumulator) histogram() []int {
	list := slices.Sorted(maps.Keys(a.buckets))
	finite := slices.DeleteFunc(slices.Clone(list), func(b int) bool { return b == bucketOfInf || b == bucketOfMinusInf })
	if len(finite) == 0 || finite[len(finite)-1]-finite[0] > maxBuckets {
		return list
	}
	for b := finite[0]; b < finite[len(finite)-1]; b++ {
		if from, to := bucketEnds(b); a.buckets[b] == 0 && a.of(from) != a.of(to) {
			list = append(list, b)
		}
	}
	slices.Sort(list)
	return list
}
