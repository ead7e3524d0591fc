package heph

import (
	"encoding/binary"
	"math"
	"strconv"
	"unsafe"
)

// A Type is the type of an attribute's [Value]. Part of the format.
type Type uint8

// The types of values, and the mark of arrays of them.
const (
	TypeU64    Type = 0x01
	TypeI64    Type = 0x02
	TypeF64    Type = 0x03
	TypeString Type = 0x04
	TypeArray  Type = 0x80
)

// String returns the name of the type, such as "u64" or "string[]".
func (t Type) String() string {
	names := [...]string{TypeU64: "u64", TypeI64: "i64", TypeF64: "f64", TypeString: "string"}
	base := t &^ TypeArray
	if !t.valid() {
		return "Type(" + strconv.Itoa(int(t)) + ")"
	}
	if t != base {
		return names[base] + "[]"
	}
	return names[base]
}

func (t Type) valid() bool {
	base := t &^ TypeArray
	return base >= TypeU64 && base <= TypeString
}

// An Attribute is a name and a value. Names may come twice in one event.
type Attribute struct {
	Name  string
	Value Value
}

// A Value is the value of an attribute: a number, a text, or an array of values of
// one type. It aliases what it was read from. The zero Value is of no type and
// must not be sent.
type Value struct {
	_ [0]func() // NaN, and texts in two places: compare what the methods return

	typ Type
	num uint64 // the number, or how many values an array has
	// text is the text, or the values of an array as they are in a packet.
	text string
}

// U64 returns an unsigned number.
func U64(n uint64) Value { return Value{typ: TypeU64, num: n} }

// I64 returns a signed number.
func I64(n int64) Value { return Value{typ: TypeI64, num: uint64(n)} }

// F64 returns a floating-point number. Every bit pattern survives.
func F64(f float64) Value { return Value{typ: TypeF64, num: math.Float64bits(f)} }

// String returns a text, of at most 65,535 bytes to be sent.
func String(s string) Value { return Value{typ: TypeString, text: s} }

// U64s returns an array, of at most 65,535 values to be sent.
func U64s(all []uint64) Value {
	b := make([]byte, 0, 8*len(all))
	for _, n := range all {
		b = binary.BigEndian.AppendUint64(b, n)
	}
	return array(TypeU64, len(all), b)
}

// I64s is [U64s] for signed numbers.
func I64s(all []int64) Value {
	b := make([]byte, 0, 8*len(all))
	for _, n := range all {
		b = binary.BigEndian.AppendUint64(b, uint64(n))
	}
	return array(TypeI64, len(all), b)
}

// F64s is [U64s] for floating-point numbers.
func F64s(all []float64) Value {
	b := make([]byte, 0, 8*len(all))
	for _, f := range all {
		b = binary.BigEndian.AppendUint64(b, math.Float64bits(f))
	}
	return array(TypeF64, len(all), b)
}

// Strings is [U64s] for texts, of which none may be longer than 65,535 bytes: it
// panics if one is.
func Strings(all []string) Value {
	var b []byte
	for _, s := range all {
		b = appendString(b, s)
	}
	return array(TypeString, len(all), b)
}

func array(t Type, n int, b []byte) Value {
	return Value{typ: t | TypeArray, num: uint64(n), text: alias(b)}
}

// alias returns b as a string without a copy.
func alias(b []byte) string { return unsafe.String(unsafe.SliceData(b), len(b)) }

// Type returns the type of v.
func (v Value) Type() Type { return v.typ }

// Len returns the number of values of an array, 0 for anything else.
func (v Value) Len() int {
	if v.typ&TypeArray == 0 {
		return 0
	}
	return int(v.num)
}

// U64 returns an unsigned number, 0 for anything else.
func (v Value) U64() uint64 {
	if v.typ != TypeU64 {
		return 0
	}
	return v.num
}

// I64 returns a signed number, 0 for anything else.
func (v Value) I64() int64 {
	if v.typ != TypeI64 {
		return 0
	}
	return int64(v.num)
}

// F64 returns a floating-point number, 0 for anything else.
func (v Value) F64() float64 {
	if v.typ != TypeF64 {
		return 0
	}
	return math.Float64frombits(v.num)
}

// Text returns a text, "" for anything else. Bytes that are no UTF-8 are kept.
func (v Value) Text() string {
	if v.typ != TypeString {
		return ""
	}
	return v.text
}

// Each calls fn with the values of an array, in order, until it returns false.
func (v Value) Each(fn func(v Value) bool) {
	if v.typ&TypeArray == 0 {
		return
	}
	text, base := v.text, v.typ&^TypeArray
	for len(text) > 0 {
		item := Value{typ: base}
		if base == TypeString {
			n := int(text[0])<<8 | int(text[1])
			item.text, text = text[2:2+n], text[2+n:]
		} else {
			for i := range 8 {
				item.num = item.num<<8 | uint64(text[i])
			}
			text = text[8:]
		}
		if !fn(item) {
			return
		}
	}
}

// appendValue appends the type and the bytes of v.
func appendValue(b []byte, v *Value) []byte {
	b = append(b, byte(v.typ))
	switch v.typ {
	case TypeU64, TypeI64, TypeF64:
		return binary.BigEndian.AppendUint64(b, v.num)
	case TypeString:
		return appendString(b, v.text)
	}
	return append(binary.BigEndian.AppendUint16(b, uint16(v.num)), v.text...)
}

// appendString appends a text. It panics when 16 bits cannot hold its length.
func appendString(b []byte, s string) []byte {
	if len(s) > math.MaxUint16 {
		panic("heph: a text of more than 65535 bytes")
	}
	return append(binary.BigEndian.AppendUint16(b, uint16(len(s))), s...)
}
