package format

import (
	"encoding/hex"
	"math"
	"math/big"
	"strconv"
	"strings"
	"time"
	"unsafe"
)

// A Kind is the kind of a [Value].
type Kind uint8

// The kinds. The numbers are the variants of ENTRACE's EnValue, and part of the file format.
const (
	KindString Kind = 0
	KindBytes  Kind = 1
	KindBool   Kind = 2
	KindFloat  Kind = 3
	KindU64    Kind = 4
	KindI64    Kind = 5
	KindU128   Kind = 6
	KindI128   Kind = 7

	numKinds = 8
)

var kindNames = [numKinds]string{"String", "Bytes", "Bool", "Float", "U64", "I64", "U128", "I128"}

// String returns the name of the variant, such as "U64".
func (k Kind) String() string {
	if k < numKinds {
		return kindNames[k]
	}
	return "Kind(" + strconv.Itoa(int(k)) + ")"
}

// A Value is the value of an attribute. In entrace_core it is called EnValue. A Value of any kind needs no
// allocation. The zero Value is the empty String.
//
// Text, Bytes, Bool and Float return the value of one kind, and a zero value for other kinds. U64 and I64 convert an
// integer of any kind, and report whether it fits.
type Value struct {
	_ [0]func() // forbids ==, because equal strings may have different pointers; use Equal

	// Invariants: for String and Bytes, text points to lo bytes, otherwise it is nil. hi is 0 except for the
	// 128-bit kinds.
	text   *byte
	lo, hi uint64
	kind   Kind
}

// StringValue returns a String. If s is not valid UTF-8, other readers refuse the value, and a recorder stores it as
// Bytes.
func StringValue(s string) Value {
	return Value{kind: KindString, text: unsafe.StringData(s), lo: uint64(len(s))}
}

// BytesValue returns Bytes. The value aliases b, which must not change afterwards.
func BytesValue(b []byte) Value {
	return Value{kind: KindBytes, text: unsafe.SliceData(b), lo: uint64(len(b))}
}

// BoolValue returns a Bool.
func BoolValue(b bool) Value {
	if b {
		return Value{kind: KindBool, lo: 1}
	}
	return Value{kind: KindBool}
}

// FloatValue returns a Float. It keeps every bit pattern, including every NaN.
func FloatValue(f float64) Value { return Value{kind: KindFloat, lo: math.Float64bits(f)} }

// U64Value returns a U64.
func U64Value(n uint64) Value { return Value{kind: KindU64, lo: n} }

// I64Value returns an I64.
func I64Value(n int64) Value { return Value{kind: KindI64, lo: uint64(n)} }

// U128Value returns the U128 hi<<64 | lo.
func U128Value(hi, lo uint64) Value { return Value{kind: KindU128, hi: hi, lo: lo} }

// I128Value returns the I128 hi<<64 | lo, in two's complement.
func I128Value(hi int64, lo uint64) Value { return Value{kind: KindI128, hi: uint64(hi), lo: lo} }

// TimeValue returns t in nanoseconds since 1970: as a U64, or for a time before 1970 as an I64. A time outside the
// range of 64 bits becomes the nearest time within it.
func TimeValue(t time.Time) Value {
	s := t.Unix()
	switch {
	case s <= math.MinInt64/1_000_000_000:
		return I64Value(math.MinInt64 + 1) // for package view, MinInt64 means that there is no time
	case s < 0:
		return I64Value(t.UnixNano())
	case s > math.MaxUint64/1_000_000_000-1:
		return U64Value(math.MaxUint64)
	}
	return U64Value(uint64(s)*1_000_000_000 + uint64(t.Nanosecond()))
}

// String returns v for people: a text unchanged, bytes as 0x and hex digits, numbers in decimal. Programs should
// use [Value.Any].
func (v Value) String() string {
	switch v.kind {
	case KindString:
		return v.Text()
	case KindBytes:
		return "0x" + hex.EncodeToString(v.Bytes())
	case KindBool:
		return strconv.FormatBool(v.Bool())
	case KindFloat:
		return strconv.FormatFloat(v.Float(), 'g', -1, 64)
	}
	return string(v.AppendDecimal(nil))
}

// Any returns v as a string, []byte, bool, float64, uint64 or int64, and for the 128-bit kinds as
// a [*big.Int]. The caller must not change the bytes.
func (v Value) Any() any {
	switch v.kind {
	case KindString:
		return v.Text()
	case KindBytes:
		return v.Bytes()
	case KindBool:
		return v.Bool()
	case KindFloat:
		return v.Float()
	case KindU64:
		return v.lo
	case KindI64:
		return int64(v.lo)
	}
	n, _ := new(big.Int).SetString(string(v.AppendDecimal(nil)), 10) // always a valid number
	return n
}

// Kind returns the kind of v.
func (v Value) Kind() Kind { return v.kind }

// Text returns the text of a String, or the bytes of Bytes as a string. For the other kinds it returns "". The
// result is no copy: it aliases the memory from which v was made.
func (v Value) Text() string {
	if v.kind > KindBytes {
		return ""
	}
	return unsafe.String(v.text, int(v.lo))
}

// Bytes returns the same bytes as Text, as a slice. The caller must not change it.
func (v Value) Bytes() []byte {
	if v.kind > KindBytes {
		return nil
	}
	return unsafe.Slice(v.text, int(v.lo))
}

// Bool returns the value of a Bool. For the other kinds it returns false.
func (v Value) Bool() bool { return v.kind == KindBool && v.lo != 0 }

// Float returns the value of a Float. For the other kinds it returns 0.
func (v Value) Float() float64 {
	if v.kind != KindFloat {
		return 0
	}
	return math.Float64frombits(v.lo)
}

// U64 returns the value of an integer of any kind as a uint64. It returns false if v is not an integer or does not
// fit.
func (v Value) U64() (uint64, bool) {
	switch v.kind {
	case KindU64:
		return v.lo, true
	case KindI64:
		return v.lo, int64(v.lo) >= 0
	case KindU128, KindI128:
		return v.lo, v.hi == 0
	}
	return 0, false
}

// I64 returns the value of an integer of any kind as an int64. It returns false if v is not an integer or does not
// fit.
func (v Value) I64() (int64, bool) {
	switch v.kind {
	case KindI64:
		return int64(v.lo), true
	case KindU64, KindU128:
		return int64(v.lo), v.hi == 0 && int64(v.lo) >= 0
	case KindI128:
		return int64(v.lo), v.hi == uint64(int64(v.lo)>>63)
	}
	return 0, false
}

// Words returns the two halves of an integer, extended to 128 bits. For a Bool or a Float, lo has the bits of the
// value.
func (v Value) Words() (hi, lo uint64) {
	if v.kind == KindI64 {
		return uint64(int64(v.lo) >> 63), v.lo
	}
	return v.hi, v.lo
}

// Equal reports whether v and w have the same kind and the same bits.
func (v Value) Equal(w Value) bool {
	if v.kind != w.kind || v.lo != w.lo || v.hi != w.hi {
		return false
	}
	return v.kind > KindBytes || v.Text() == w.Text()
}

// clone returns a copy of v that shares no memory with it.
func (v Value) clone() Value {
	if v.kind <= KindBytes && v.lo != 0 {
		v.text = unsafe.StringData(strings.Clone(v.Text()))
	}
	return v
}

// AppendDecimal appends v in decimal digits to b if v is an integer of any kind. Otherwise it returns b unchanged.
func (v Value) AppendDecimal(b []byte) []byte {
	if n, ok := v.U64(); ok {
		return strconv.AppendUint(b, n, 10)
	}
	if n, ok := v.I64(); ok {
		return strconv.AppendInt(b, n, 10)
	}
	if v.kind < KindU128 {
		return b
	}
	n := new(big.Int).SetUint64(v.hi)
	n.Lsh(n, 64).Or(n, new(big.Int).SetUint64(v.lo))
	if v.kind == KindI128 && int64(v.hi) < 0 {
		n.Sub(n, new(big.Int).Lsh(big.NewInt(1), 128))
	}
	return n.Append(b, 10)
}
