package query

import (
	"math"
	"math/big"
	"math/bits"
)

// exactBits is the precision with which partial sums are added. It is enough for an exact sum of
// 2^32 floats or of their squares.
const exactBits = 4500

// A floatSum adds floats without rounding, so that their order does not change the sum.
type floatSum struct {
	parts []float64  // non-overlapping floats; their exact sum is the sum of the floats in midRange
	wide  *big.Float // the sum of the floats outside of midRange
}

// midRange reports whether x is in the range in which a floatSum can add x and its square exactly as parts.
func midRange(x float64) bool {
	a := math.Abs(x)
	return x == 0 || a > 0x1p-480 && a < 0x1p480
}

// add adds a float to parts. It must be a number that midRange accepts, or a part of the square of such a number.
func (s *floatSum) add(x float64) {
	n := 0
	for _, y := range s.parts {
		if math.Abs(x) < math.Abs(y) {
			x, y = y, x
		}
		hi := x + y
		if lo := y - (hi - x); lo != 0 {
			s.parts[n] = lo
			n++
		}
		x = hi
	}
	s.parts = append(s.parts[:n], x)
}

func (s *floatSum) addWide(x *big.Float) {
	if s.wide == nil {
		s.wide = new(big.Float).SetPrec(exactBits)
	}
	s.wide.Add(s.wide, x)
}

// merge adds the sum b.
func (s *floatSum) merge(b *floatSum) {
	for _, x := range b.parts {
		s.add(x)
	}
	if b.wide != nil {
		s.addWide(b.wide)
	}
}

// addTo adds the sum to x.
func (s *floatSum) addTo(x *big.Float) {
	for _, y := range s.parts {
		x.Add(x, new(big.Float).SetFloat64(y))
	}
	if s.wide != nil {
		x.Add(x, s.wide)
	}
}

// A sums computes the exact sum of numbers and of their squares, so that the order of the numbers does not matter.
type sums struct {
	n           int64
	low         uint64 // with high, the sum of the whole numbers in two's complement
	high        int64
	floats      floatSum
	squares     floatSum
	infinite    float64 // the sum of the numbers that are infinite, or 0; NaN if both +Inf and -Inf were added
	withSquares bool
}

// add adds a number, which must not be NaN.
func (s *sums) add(v Value) {
	if v.kind == kindFloat {
		s.n++
		s.addFloat(v.float())
		return
	}
	high := int64(0)
	if v.kind != kindUint && v.n < 0 {
		high = -1
	}
	s.addWhole(uint64(v.n), high)
	if s.withSquares { // the exact square of x+y
		x, y := math.Ldexp(float64(high<<32|int64(uint64(v.n)>>32)), 32), float64(uint32(v.n))
		s.addProduct(x, x)
		s.addProduct(2*x, y)
		s.addProduct(y, y)
	}
}

// addWhole adds a whole number in two's complement, without its square.
func (s *sums) addWhole(low uint64, high int64) {
	s.n++
	var carry uint64
	s.low, carry = bits.Add64(s.low, low, 0)
	s.high += high + int64(carry)
}

// addProduct adds a product of two floats, which midRange must accept, to the squares.
func (s *sums) addProduct(x, y float64) {
	hi := x * y
	s.squares.add(hi)
	s.squares.add(math.FMA(x, y, -hi))
}

func (s *sums) addFloat(x float64) {
	switch {
	case math.IsInf(x, 0):
		s.infinite += x
	case midRange(x):
		s.floats.add(x)
		if s.withSquares {
			s.addProduct(x, x)
		}
	default:
		b := new(big.Float).SetPrec(exactBits).SetFloat64(x)
		s.floats.addWide(b)
		if s.withSquares {
			s.squares.addWide(new(big.Float).SetPrec(exactBits).Mul(b, b))
		}
	}
}

// merge adds the numbers of b.
func (s *sums) merge(b *sums) {
	s.n += b.n
	var carry uint64
	s.low, carry = bits.Add64(s.low, b.low, 0)
	s.high += b.high + int64(carry)
	s.floats.merge(&b.floats)
	s.squares.merge(&b.squares)
	s.infinite += b.infinite
}

// total returns the sum.
func (s *sums) total() *big.Float {
	x := new(big.Float).SetPrec(exactBits).SetInt64(s.high)
	x.SetMantExp(x, 64)
	x.Add(x, new(big.Float).SetUint64(s.low))
	s.floats.addTo(x)
	return x
}

// sum returns the sum as a value of the given kind, or as a float if it does not fit into that
// kind.
func (s *sums) sum(kind valueKind) Value {
	if kind == kindUint {
		kind = kindInt
	}
	switch {
	case kind == kindFloat:
	case s.high == int64(s.low)>>63:
		return Value{kind: kind, n: int64(s.low)}
	case s.high == 0 && kind == kindInt:
		return uintValue(s.low)
	}
	f, _ := s.total().Float64()
	return floatValue(f)
}

// mean returns the mean as a value of the given kind.
func (s *sums) mean(kind valueKind) Value {
	if whole := int64(s.low); s.high == whole>>63 && kind != kindFloat {
		switch {
		case kind == kindDuration || kind == kindTime:
			mean, rest := whole/s.n, whole%s.n
			if rest >= s.n-rest {
				mean++
			} else if -rest >= s.n+rest {
				mean--
			}
			return Value{kind: kind, n: mean}
		case magnitude(whole) < 1<<53:
			return floatValue(float64(whole) / float64(s.n))
		}
	}
	x := s.total()
	return rounded(x.Quo(x, new(big.Float).SetInt64(s.n)), kind)
}

// deviation returns the standard deviation.
func (s *sums) deviation(kind valueKind) Value {
	// (n·Σx² − (Σx)²) / n²
	n := new(big.Float).SetInt64(s.n)
	x := new(big.Float).SetPrec(exactBits)
	s.squares.addTo(x)
	x.Mul(x, n)
	sum := s.total()
	x.Sub(x, sum.Mul(sum, sum))
	x.Quo(x.Quo(x, n), n).SetPrec(128)
	return rounded(x.Sqrt(x), kind)
}

// rounded returns x as a value of the given kind. Durations and times are rounded to whole
// nanoseconds.
func rounded(x *big.Float, kind valueKind) Value {
	if kind == kindDuration || kind == kindTime {
		half := 0.5
		if x.Signbit() {
			half = -half
		}
		if n, _ := x.Add(x, big.NewFloat(half)).Int(nil); n.IsInt64() {
			return Value{kind: kind, n: n.Int64()}
		}
	}
	f, _ := x.Float64()
	return floatValue(f)
}
