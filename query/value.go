package query

import (
	"cmp"
	"math"
	"math/big"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/entrace-go/entrace/format"
	"github.com/entrace-go/entrace/view"
)

// A Kind is the kind of a [Value].
type Kind uint8

// The kinds of values.
const (
	KindNil      Kind = iota // there is none
	KindBool                 // true or false
	KindInt                  // a number
	KindFloat                // a number
	KindDuration             // a number of nanoseconds
	KindTime                 // nanoseconds since 1970
	KindString               // a text
	KindLevel                // a level of a log record
	KindStatus               // a status of a span
	KindSpanKind             // a kind of span
	KindRole                 // a role of a row
)

// A Value is what a query computes. The zero Value is nil: there is none.
type Value struct {
	s    string
	f    float64
	n    int64
	kind Kind
}

// Kind returns the kind of v.
func (v Value) Kind() Kind { return v.kind }

func boolValue(b bool) Value {
	if b {
		return Value{kind: KindBool, n: 1}
	}
	return Value{kind: KindBool}
}

func intValue(n int64) Value             { return Value{kind: KindInt, n: n} }
func floatValue(f float64) Value         { return Value{kind: KindFloat, f: f} }
func stringValue(s string) Value         { return Value{kind: KindString, s: s} }
func durationValue(n int64) Value        { return Value{kind: KindDuration, n: n} }
func enumValue(kind Kind, n uint8) Value { return Value{kind: kind, n: int64(n)} }

// isNumber reports whether v is a number.
func (v Value) isNumber() bool { return v.kind >= KindInt && v.kind <= KindTime }

// number returns v as a float.
func (v Value) number() (float64, bool) {
	switch {
	case v.kind == KindFloat:
		return v.f, true
	case v.isNumber():
		return float64(v.n), true
	}
	return 0, false
}

// Any returns v as a nil, bool, int64, float64 or string; durations as int64 nanoseconds.
func (v Value) Any() any {
	switch v.kind {
	case KindNil:
		return nil
	case KindBool:
		return v.n != 0
	case KindInt, KindDuration, KindTime:
		return v.n
	case KindFloat:
		return v.f
	}
	return v.String()
}

// String returns v for people to read.
func (v Value) String() string {
	switch v.kind {
	case KindNil:
		return "nil"
	case KindBool:
		return strconv.FormatBool(v.n != 0)
	case KindInt:
		return strconv.FormatInt(v.n, 10)
	case KindFloat:
		return strconv.FormatFloat(v.f, 'g', -1, 64)
	case KindDuration:
		return time.Duration(v.n).String()
	case KindTime:
		return time.Unix(0, v.n).UTC().Format(time.RFC3339Nano)
	case KindLevel:
		return format.Level(v.n).String()
	case KindStatus:
		return view.Status(v.n).String()
	case KindSpanKind:
		return view.Kind(v.n).String()
	case KindRole:
		return view.Role(v.n).String()
	}
	return v.s
}

// valueOf returns the value of an attribute.
func valueOf(a format.Value) Value {
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
	f, _ := new(big.Float).SetString(string(a.AppendDecimal(nil)))
	if f == nil {
		return Value{}
	}
	x, _ := f.Float64()
	return floatValue(x)
}

// order compares two values of kinds that go together; ok is false for others.
func order(a, b Value) (n int, ok bool) {
	switch {
	case a.isNumber() && b.isNumber():
		return orderNumbers(a, b)
	case a.kind != b.kind || a.kind == KindNil:
		return 0, false
	case a.kind == KindString:
		return strings.Compare(a.s, b.s), true
	}
	return cmp.Compare(a.n, b.n), true
}

func orderNumbers(a, b Value) (int, bool) {
	if a.kind != KindFloat && b.kind != KindFloat {
		return cmp.Compare(a.n, b.n), true
	}
	if a.kind == KindFloat && b.kind == KindFloat {
		if math.IsNaN(a.f) || math.IsNaN(b.f) {
			return 0, false
		}
		return cmp.Compare(a.f, b.f), true
	}
	if a.kind == KindFloat {
		n, ok := orderNumbers(b, a)
		return -n, ok
	}
	// An integer with a float, exactly.
	switch {
	case math.IsNaN(b.f):
		return 0, false
	case b.f >= 1<<63:
		return -1, true
	case b.f < -1<<63:
		return 1, true
	}
	whole := math.Floor(b.f)
	if n := cmp.Compare(a.n, int64(whole)); n != 0 {
		return n, true
	}
	if b.f > whole {
		return -1, true
	}
	return 0, true
}

// A comparison is an operator with what is on its right side.
type comparison struct {
	op    string
	value Value
	regex *regexp.Regexp
	list  []Value // of in
	fold  string  // of contains, in lower case
}

// holds reports whether a value is as the comparison wants it. A value that is not there, or of
// another kind, is not, whatever the operator.
func (c *comparison) holds(v Value) bool {
	switch c.op {
	case "=~":
		return v.kind == KindString && c.regex.MatchString(v.s)
	case "!~":
		return v.kind == KindString && !c.regex.MatchString(v.s)
	case "contains":
		return v.kind == KindString && strings.Contains(strings.ToLower(v.s), c.fold)
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
	if c.value.kind == KindNil {
		return (v.kind == KindNil) == (c.op == "=")
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
