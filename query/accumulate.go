package query

import (
	"cmp"
	"maps"
	"math"
	"slices"

	"github.com/entrace-go/entrace/internal/read/columns"
	"github.com/entrace-go/entrace/internal/read/stat"
	"github.com/entrace-go/entrace/view"
)

// An accumulator computes one aggregate of one group. Its result does not depend on the order of the values, so
// several goroutines can add them and merge their accumulators. Most groups are small, so the first value needs
// no extra memory.
type accumulator struct {
	n    int64     // the number of values that are not missing
	one  Value     // for min and max, the result so far; otherwise the first value, until there is a second one
	kind valueKind // the kind of the result, see kindWith
	*kept
}

// kept holds the state of an accumulator with at least two values. An accumulator with fewer values has a nil
// kept.
type kept struct {
	sums    *sums
	ints    durations // whole numbers below 2^63, times and durations; ints, uints and floats are used for quantiles
	uints   []uint64  // whole numbers from 2^63 on
	floats  []float64
	buckets map[int]int64 // the counts of a histogram
}

// keeps describes an aggregate: its function, and the values that it reads from rows.
type keeps struct {
	fn       string
	value    eval
	args     []float64 // the arguments of all calls of the function
	duration bool      // value is the field duration
	twice    bool      // quantiles of many durations are computed with a second pass over the rows
	// took is a faster form of value for the fields duration and self, else nil.
	took func(v *view.View, b *columns.Block, i int) int64
	same bool // the previous aggregate with took has the same took
}

// of returns the aggregate's value for a row. It returns nil for count.
func (k *keeps) of(e *env) Value {
	if k.value == nil {
		return Value{}
	}
	return k.value(e)
}

func (a *accumulator) add(k *keeps, v Value) {
	if k.counts() {
		a.n++
		return
	}
	if v.kind == kindNil {
		return
	}
	if k.isExtreme() {
		a.extreme(k.fn, v)
		return
	}
	if !v.isNumber() || v.isNaN() {
		return
	}
	a.kind = a.kindWith(v.kind)
	a.n++
	if a.n == 1 {
		a.one = v
		return
	}
	a.prepare(k)
	a.keepNumber(k, v)
}

// counts reports whether the function counts rows. Queries cannot call the function "errors", which counts only
// rows that are errors.
func (k *keeps) counts() bool { return k.fn == "count" || k.fn == "errors" }

// isExtreme reports whether the function is min or max. An accumulator of min or max stores only one value.
func (k *keeps) isExtreme() bool { return k.fn == "min" || k.fn == "max" }

// prepare prepares the accumulator for more than one value.
func (a *accumulator) prepare(k *keeps) {
	if a.kept == nil {
		a.kept = new(kept)
		a.keepNumber(k, a.one)
	}
}

// keepNumber adds a number to a.kept.
func (a *accumulator) keepNumber(k *keeps, v Value) {
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
		f, _ := v.number()
		a.buckets[bucketOf(f)]++
	default: // quantiles
		switch v.kind {
		case kindFloat:
			a.floats = append(a.floats, v.float())
		case kindUint:
			a.uints = append(a.uints, uint64(v.n))
		default:
			if k.twice {
				a.ints.add(v.n)
			} else {
				a.ints.all = append(a.ints.all, v.n)
			}
		}
	}
}

// kindWith returns the kind of the result after one more value of kind k is added. If all values have one kind, the
// result has this kind. If one value is a float, the result is a float. Times or durations together with whole
// numbers give a time or duration.
func (a *accumulator) kindWith(k valueKind) valueKind {
	if k == kindUint {
		k = kindInt
	}
	switch {
	case a.n == 0 || a.kind == k:
		return k
	case a.kind == kindFloat || k == kindFloat:
		return kindFloat
	}
	return max(a.kind, k)
}

// extreme keeps v if it is the new minimum or maximum. Numbers take precedence over texts, and
// texts over other kinds.
func (a *accumulator) extreme(fn string, v Value) {
	n := Compare(v, a.one)
	if fn == "max" && v.class() == a.one.class() {
		n = -n
	}
	// Equal numbers can have different kinds. Keep the smaller kind, so that the order of the values does not
	// matter.
	if n < 0 || n == 0 && v.kind < a.one.kind {
		a.one = v
	}
}

// merge adds the values of another goroutine's accumulator.
func (a *accumulator) merge(k *keeps, b *accumulator) {
	switch {
	case k.isExtreme():
		if b.one.kind != kindNil {
			a.extreme(k.fn, b.one)
		}
		return
	case a.n == 0:
		*a = *b
		return
	case k.counts():
		a.n += b.n
		return
	case b.n == 0:
		return
	}
	a.kind = a.kindWith(b.kind)
	a.n += b.n
	a.prepare(k)
	if b.kept == nil {
		a.keepNumber(k, b.one)
		return
	}
	if b.sums != nil {
		a.sums.merge(b.sums)
	}
	a.ints.merge(&b.ints)
	a.uints = append(a.uints, b.uints...)
	a.floats = append(a.floats, b.floats...)
	for bucket, n := range b.buckets {
		a.buckets[bucket] += n
	}
}

// of converts f to a value of the kind of the accumulated values.
func (a *accumulator) of(f float64) Value {
	if a.kind == kindDuration || a.kind == kindTime {
		return Value{kind: a.kind, n: int64(math.Round(f))}
	}
	return floatValue(f)
}

// appendResults appends the results of an aggregate to a line.
func (a *accumulator) appendResults(line []Value, k *keeps) []Value {
	switch k.fn {
	case "count", "errors":
		return append(line, intValue(a.n))
	case "min", "max":
		return append(line, a.one)
	}
	if len(k.args) > 0 {
		return a.appendQuantiles(line, k.args)
	}
	if a.n == 0 {
		return append(line, Value{})
	}
	s := &sums{withSquares: k.fn == "stddev"}
	if a.kept != nil {
		s = a.sums
	} else {
		s.add(a.one)
	}
	switch {
	case s.infinite != 0 && (s.withSquares || math.IsNaN(s.infinite)):
		return append(line, Value{})
	case s.infinite != 0:
		return append(line, floatValue(s.infinite))
	}
	switch k.fn {
	case "sum":
		return append(line, s.sum(a.kind))
	case "avg":
		return append(line, s.mean(a.kind))
	}
	kind := a.kind
	if kind == kindTime {
		kind = kindDuration
	}
	return append(line, s.deviation(kind))
}

// appendQuantiles appends exact quantiles. The quantile q is the smallest value v for which at
// least the share q of all values is not greater than v.
func (a *accumulator) appendQuantiles(line []Value, qs []float64) []Value {
	if a.kept == nil { // at most one value
		for range qs {
			line = append(line, a.one)
		}
		return line
	}
	if a.ints.spread != nil {
		for _, q := range qs {
			line = append(line, Value{kind: a.kind, n: a.ints.spread.quantile(q)})
		}
		return line
	}
	switch {
	case len(a.floats) == 0:
		for _, q := range qs {
			if r := stat.Rank(q, a.n) - int64(len(a.ints.all)); r < 0 {
				line = append(line, Value{kind: a.kind, n: stat.Nth(a.ints.all, int(stat.Rank(q, a.n)))})
			} else {
				line = append(line, uintValue(stat.Nth(a.uints, int(r))))
			}
		}
	case int64(len(a.floats)) == a.n:
		for _, q := range qs {
			line = append(line, floatValue(stat.Quantile(a.floats, q)))
		}
	default:
		var all []Value
		for _, n := range a.ints.all {
			all = append(all, intValue(n))
		}
		for _, n := range a.uints {
			all = append(all, uintValue(n))
		}
		for _, f := range a.floats {
			all = append(all, floatValue(f))
		}
		slices.SortFunc(all, func(x, y Value) int { return cmp.Or(Compare(x, y), cmp.Compare(x.kind, y.kind)) })
		for _, q := range qs {
			line = append(line, all[stat.Rank(q, a.n)])
		}
	}
	return line
}

// The buckets of a histogram are the intervals between powers of two, each divided into four parts.
// Bucket 0 is from 0 to 1. The buckets of negative numbers mirror the others. Each infinity has a
// bucket of its own.
const (
	bucketParts      = 4
	bucketOfInf      = math.MaxInt
	bucketOfMinusInf = math.MinInt
)

// bucketOf returns the bucket of a number: the bucket with the largest lower end that is not greater than the number.
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
	frac, exp := math.Frexp(f) // 0.5 <= frac < 1
	return 1 + (exp-1)*bucketParts + int((frac-0.5)*2*bucketParts)
}

// bucketEnds returns the lower and upper end of a bucket.
func bucketEnds(b int) (from, to float64) {
	switch {
	case b == bucketOfInf:
		return math.Inf(1), math.Inf(1)
	case b == bucketOfMinusInf:
		return math.Inf(-1), math.Inf(-1)
	case b < 0:
		from, to = bucketEnds(-1 - b)
		return 0 - to, 0 - from // 0 - x is never -0
	case b == 0:
		return 0, 1
	}
	end := func(b int) float64 { return math.Ldexp(1+float64(b%bucketParts)/bucketParts, b/bucketParts) }
	return end(b - 1), end(b)
}

// maxBuckets is the maximum range of a histogram, in buckets, for which it also shows empty buckets.
const maxBuckets = 256

// histogram returns the buckets in ascending order. It includes empty buckets between others, unless the range
// exceeds maxBuckets.
func (a *accumulator) histogram(k *keeps) []int {
	if a.n == 0 {
		return nil
	}
	a.prepare(k)
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
