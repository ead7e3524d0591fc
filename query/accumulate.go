package query

import (
	"math"
	"slices"
)

// An accumulator computes one aggregate.
type accumulator struct {
	n       int64
	sum     float64
	squares float64 // of differences from the mean, as Welford has it
	mean    float64
	min     Value
	max     Value
	kind    Kind  // of the values: durations stay durations
	total   int64 // sum of whole numbers
	ints    []int64
	floats  []float64
	counts  map[string]int64 // of each value
	buckets map[int]int64    // of a histogram
	spread  *spread          // of the durations of which quantiles are wanted
}

// keeps says what an accumulator has to keep.
type keeps struct {
	fn       string
	value    eval
	args     []float64 // of all calls
	duration bool      // value is the duration of the row
}

func (a *accumulator) add(k *keeps, v Value) {
	switch k.fn {
	case "count":
		a.n++
		return
	case "values":
		if v.kind != KindNil {
			if a.counts == nil {
				a.counts = make(map[string]int64)
			}
			a.counts[v.String()]++
		}
		return
	}
	f, ok := v.number()
	if !ok {
		if k.fn == "min" || k.fn == "max" {
			a.extreme(v)
		}
		return
	}
	a.kind = a.kindWith(v.kind)
	a.n++
	switch k.fn {
	case "sum":
		a.sum += f
		a.total += v.n
	case "avg", "stddev":
		a.sum += f
		d := f - a.mean
		a.mean += d / float64(a.n)
		a.squares += d * (f - a.mean)
	case "min", "max":
		a.extreme(v)
	case "histogram":
		if a.buckets == nil {
			a.buckets = make(map[int]int64)
		}
		a.buckets[bucketOf(f)]++
	default: // quantiles
		if v.kind == KindFloat {
			a.floats = append(a.floats, f)
		} else {
			a.ints = append(a.ints, v.n)
		}
	}
}

// addQuantile is add of a duration whose quantiles are wanted.
func (a *accumulator) addQuantile(d int64, spreads bool) {
	a.n++
	a.kind = KindDuration
	if !spreads {
		a.ints = append(a.ints, d)
		return
	}
	if a.spread == nil {
		a.spread = new(spread)
	}
	a.spread.counts[spreadBucket(d)]++
}

// kindWith returns the kind of the values with one more of a kind: that of all, or a time or
// duration if numbers are beside it, or a float.
func (a *accumulator) kindWith(k Kind) Kind {
	switch {
	case a.n == 0 || a.kind == k:
		return k
	case a.kind == KindFloat || k == KindFloat:
		return KindFloat
	}
	return max(a.kind, k)
}

func (a *accumulator) extreme(v Value) {
	if v.kind == KindNil {
		return
	}
	if n, ok := order(v, a.min); a.min.kind == KindNil || ok && n < 0 {
		a.min = v
	}
	if n, ok := order(v, a.max); a.max.kind == KindNil || ok && n > 0 {
		a.max = v
	}
}

// merge adds what another goroutine has accumulated.
func (a *accumulator) merge(b *accumulator) {
	if b.n == 0 && b.counts == nil && b.min.kind == KindNil {
		return
	}
	if a.buckets == nil && b.buckets != nil {
		a.buckets = make(map[int]int64)
	}
	if a.n > 0 && b.n > 0 {
		d := b.mean - a.mean
		n := float64(a.n + b.n)
		a.squares += b.squares + d*d*float64(a.n)*float64(b.n)/n
		a.mean += d * float64(b.n) / n
	} else if b.n > 0 {
		a.squares, a.mean = b.squares, b.mean
	}
	if b.n > 0 {
		a.kind = a.kindWith(b.kind)
	}
	a.n += b.n
	a.sum += b.sum
	a.total += b.total
	a.extreme(b.min)
	a.extreme(b.max)
	a.ints = append(a.ints, b.ints...)
	a.floats = append(a.floats, b.floats...)
	switch {
	case a.spread == nil:
		a.spread = b.spread
	case b.spread != nil:
		for i, n := range b.spread.counts {
			a.spread.counts[i] += n
		}
	}
	for bucket, n := range b.buckets {
		a.buckets[bucket] += n
	}
	for s, n := range b.counts {
		if a.counts == nil {
			a.counts = make(map[string]int64)
		}
		a.counts[s] += n
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
	case "min":
		return []Value{a.min}
	case "max":
		return []Value{a.max}
	}
	if a.n == 0 {
		return make([]Value, max(1, len(k.args)))
	}
	switch k.fn {
	case "sum":
		if a.kind != KindFloat && math.Abs(a.sum) < 1<<62 { // a whole one can overflow
			return []Value{{kind: a.kind, n: a.total}}
		}
		return []Value{floatValue(a.sum)}
	case "avg":
		return []Value{a.of(a.sum / float64(a.n))}
	case "stddev":
		return []Value{a.of(math.Sqrt(a.squares / float64(a.n)))}
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
	if len(a.floats) == 0 {
		for i, q := range qs {
			out[i] = Value{kind: a.kind, n: Quantile(a.ints, q)}
		}
		return out
	}
	for _, n := range a.ints {
		a.floats = append(a.floats, float64(n))
	}
	a.ints = nil
	for i, q := range qs {
		out[i] = floatValue(Quantile(a.floats, q))
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
func nth[T int64 | float64](values []T, k int) T {
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

// A histogram's buckets are powers of two, each in four parts.
const bucketParts = 4

// bucketOf returns the bucket of a number: that with the largest lower end that is not above it.
func bucketOf(f float64) int {
	if f < 1 {
		return -1
	}
	frac, exp := math.Frexp(f) // frac is from 0.5 on and below 1
	return (exp-1)*bucketParts + int((frac-0.5)*2*bucketParts)
}

// bucketFrom returns the lower end of a bucket.
func bucketFrom(b int) float64 {
	if b < 0 {
		return 0
	}
	return math.Ldexp(1+float64(b%bucketParts)/bucketParts, b/bucketParts)
}
