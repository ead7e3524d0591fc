package query

import (
	"cmp"
	"math"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/entrace-go/entrace/format"
	"github.com/entrace-go/entrace/internal/otel"
	"github.com/entrace-go/entrace/view"
)

// A valueKind is the kind of a [Value].
type valueKind uint8

// The kinds of values.
const (
	kindNil      valueKind = iota // no value
	kindBool                      // true or false
	kindInt                       // a whole number below 2^63
	kindUint                      // a whole number of 2^63 or more
	kindFloat                     // a number
	kindDuration                  // a number of nanoseconds
	kindTime                      // nanoseconds since 1970
	kindString                    // a text
	kindLevel                     // a level of a log record
	kindStatus                    // a status of a span
	kindSpanKind                  // a kind of span
	kindRole                      // a role of a row
)

// A Value is the result of an expression. The zero Value is nil: no value.
type Value struct {
	s    string
	n    int64 // for kindUint and kindFloat, the bits of the number
	kind valueKind
}

func boolValue(b bool) Value {
	if b {
		return Value{kind: kindBool, n: 1}
	}
	return Value{kind: kindBool}
}

func intValue(n int64) Value { return Value{kind: kindInt, n: n} }
func uintValue(n uint64) Value {
	if n <= math.MaxInt64 {
		return intValue(int64(n))
	}
	return Value{kind: kindUint, n: int64(n)}
}

func floatValue(f float64) Value              { return Value{kind: kindFloat, n: int64(math.Float64bits(f))} }
func stringValue(s string) Value              { return Value{kind: kindString, s: s} }
func durationValue(n int64) Value             { return Value{kind: kindDuration, n: n} }
func enumValue(kind valueKind, n uint8) Value { return Value{kind: kind, n: int64(n)} }

// float returns the number of a value of kindFloat.
func (v Value) float() float64 { return math.Float64frombits(uint64(v.n)) }

// isNumber reports whether v is a number.
func (v Value) isNumber() bool { return v.kind >= kindInt && v.kind <= kindTime }

// number returns v as a float.
func (v Value) number() (float64, bool) {
	switch {
	case v.kind == kindFloat:
		return v.float(), true
	case v.kind == kindUint:
		return float64(uint64(v.n)), true
	case v.isNumber():
		return float64(v.n), true
	}
	return 0, false
}

// Any returns v as a Go value: nil, bool, int64, float64, [time.Duration], [time.Time] or string. It returns whole
// numbers of 2^63 or more as uint64.
func (v Value) Any() any {
	switch v.kind {
	case kindNil:
		return nil
	case kindBool:
		return v.n != 0
	case kindInt:
		return v.n
	case kindDuration:
		return time.Duration(v.n)
	case kindTime:
		return time.Unix(0, v.n).UTC()
	case kindUint:
		return uint64(v.n)
	case kindFloat:
		return v.float()
	}
	return v.String()
}

// String returns v in a form for people to read.
func (v Value) String() string {
	switch v.kind {
	case kindNil:
		return "nil"
	case kindBool:
		return strconv.FormatBool(v.n != 0)
	case kindInt:
		return strconv.FormatInt(v.n, 10)
	case kindUint:
		return strconv.FormatUint(uint64(v.n), 10)
	case kindFloat:
		return strconv.FormatFloat(v.float(), 'g', -1, 64)
	case kindDuration:
		return time.Duration(v.n).String()
	case kindTime:
		return time.Unix(0, v.n).UTC().Format(time.RFC3339Nano)
	case kindLevel:
		return format.Level(v.n).String()
	case kindStatus:
		return otel.Status(v.n).String()
	case kindSpanKind:
		return otel.SpanKind(v.n).String()
	case kindRole:
		return view.Role(v.n).String()
	}
	return v.s
}

// ValueOf returns the value of an attribute.
func ValueOf(a format.Value) Value {
	switch a.Kind() {
	case format.KindString, format.KindBytes:
		return stringValue(a.Text())
	case format.KindBool:
		return boolValue(a.Bool())
	case format.KindFloat:
		return floatValue(a.Float())
	}
	if n, ok := a.I64(); ok {
		return intValue(n)
	}
	if n, ok := a.U64(); ok {
		return uintValue(n)
	}
	f, err := strconv.ParseFloat(string(a.AppendDecimal(nil)), 64)
	if err != nil {
		return Value{}
	}
	return floatValue(f)
}

// order compares two values. If their kinds cannot be compared, ok is false.
func order(a, b Value) (n int, ok bool) {
	switch {
	case a.isNumber() && b.isNumber():
		return orderNumbers(a, b)
	case a.kind != b.kind || a.kind == kindNil:
		return 0, false
	case a.kind == kindString:
		return strings.Compare(a.s, b.s), true
	}
	return cmp.Compare(a.n, b.n), true
}

func orderNumbers(a, b Value) (int, bool) {
	switch {
	case a.kind == kindFloat && b.kind == kindFloat:
		return cmp.Compare(a.float(), b.float()), !math.IsNaN(a.float()) && !math.IsNaN(b.float())
	case a.kind == kindFloat:
		n, ok := orderNumbers(b, a)
		return -n, ok
	case b.kind == kindFloat:
		return orderFloat(a, b.float()), !math.IsNaN(b.float())
	case a.kind == kindUint && b.kind == kindUint:
		return cmp.Compare(uint64(a.n), uint64(b.n)), true
	case a.kind == kindUint:
		return 1, true
	case b.kind == kindUint:
		return -1, true
	}
	return cmp.Compare(a.n, b.n), true
}

// orderFloat compares a whole number with a float, exactly.
func orderFloat(a Value, f float64) int {
	n, whole := 0, math.Floor(f)
	switch {
	case f >= 1<<64:
		return -1
	case f < -1<<63:
		return 1
	case a.kind == kindUint && f < 1<<63:
		return 1
	case a.kind == kindUint:
		n = cmp.Compare(uint64(a.n), uint64(whole))
	case f >= 1<<63:
		return -1
	default:
		n = cmp.Compare(a.n, int64(whole))
	}
	if n == 0 && f > whole {
		return -1
	}
	return n
}

// isNaN reports whether v is the float NaN. Aggregates and sort treat it like a missing value.
func (v Value) isNaN() bool { return v.kind == kindFloat && math.IsNaN(v.float()) }

// class returns the rank of v when values of different kinds are sorted: numbers come first, then texts, booleans,
// enums, and missing values.
func (v Value) class() int {
	switch {
	case v.kind == kindNil || v.isNaN():
		return math.MaxInt
	case v.isNumber():
		return 0
	case v.kind == kindString:
		return 1
	}
	return 1 + int(v.kind)
}

// Compare compares any two values for sorting. If their kinds differ, numbers come first, then texts, booleans,
// levels, statuses, kinds of spans, roles, and last missing values and NaN.
func Compare(a, b Value) int {
	if n := cmp.Compare(a.class(), b.class()); n != 0 {
		return n
	}
	n, _ := order(a, b)
	return n
}

// A comparison is an operator and its right side.
type comparison struct {
	op    string
	value Value
	regex *regexp.Regexp
	list  []Value // the list of the operators "in" and "not in"
	fold  string  // the text of the operator "contains", in lower case
}

// holds reports whether the comparison is true for the left side v. A comparison with nil tests whether v is
// missing. Every other comparison is false if v is missing or has another kind.
func (c *comparison) holds(v Value) bool {
	switch c.op {
	case "=~":
		return v.kind == kindString && c.regex.MatchString(v.s)
	case "!~":
		return v.kind == kindString && !c.regex.MatchString(v.s)
	case "contains":
		return v.kind == kindString && strings.Contains(strings.ToLower(v.s), c.fold)
	case "in", "not in":
		alike := false
		for _, x := range c.list {
			n, ok := order(v, x)
			if ok && n == 0 {
				return c.op == "in"
			}
			alike = alike || ok
		}
		return c.op == "not in" && alike
	}
	if c.value.kind == kindNil {
		return (v.kind == kindNil) == (c.op == "=")
	}
	n, ok := order(v, c.value)
	if !ok {
		return false
	}
	return holdsOrder(c.op, n)
}

func holdsOrder(op string, n int) bool {
	switch op {
	case "=":
		return n == 0
	case "!=":
		return n != 0
	case ">":
		return n > 0
	case ">=":
		return n >= 0
	case "<":
		return n < 0
	}
	return n <= 0
}

// canonical returns the same value for all numbers that are equal.
func canonical(v Value) Value {
	switch {
	case v.kind != kindFloat:
		return v
	case math.IsNaN(v.float()):
		return floatValue(math.NaN())
	case v.float() != math.Trunc(v.float()) || v.float() < -1<<63 || v.float() >= 1<<64:
		return v
	case v.float() >= 1<<63:
		return uintValue(uint64(v.float()))
	}
	return intValue(int64(v.float()))
}

// orderIn compares two values for an ascending or a descending order. Missing values come last in both orders.
func orderIn(desc bool, a, b Value) int {
	n := Compare(a, b)
	if desc && a.class() != math.MaxInt && b.class() != math.MaxInt {
		return -n
	}
	return n
}
