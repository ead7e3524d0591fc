package heph

import "math"

// A valueType is the type of a [value]. It is a part of the format.
type valueType uint8

// The types of values. kindArray is a flag for arrays.
const (
	kindU64    valueType = 0x01
	kindI64    valueType = 0x02
	kindF64    valueType = 0x03
	kindString valueType = 0x04
	kindArray  valueType = 0x80
)

func (t valueType) valid() bool {
	base := t &^ kindArray
	return base >= kindU64 && base <= kindString
}

// An attribute is an attribute of an event. An event may have several attributes with the same name.
type attribute struct {
	Name  string
	Value value
}

// A value is the value of an attribute: a number, a text, or an array of values of one type. It refers to the bytes
// from which it was read.
type value struct {
	_ [0]func() // forbids ==, which would be wrong for NaN and for texts at different addresses

	typ valueType
	num uint64 // the number, or the length of an array
	// text is the text, or the encoded items of an array.
	text string
}

// Len returns the number of items of an array, or 0 for another value.
func (v value) Len() int {
	if v.typ&kindArray == 0 {
		return 0
	}
	return int(v.num)
}

// I64 returns the signed number in v.
func (v value) I64() int64 { return int64(v.num) }

// F64 returns the floating-point number in v.
func (v value) F64() float64 { return math.Float64frombits(v.num) }

// Text returns the text in v, which need not be UTF-8, or "" for another value.
func (v value) Text() string {
	if v.typ != kindString {
		return ""
	}
	return v.text
}

// Each calls fn for each item of an array, in order, until fn returns false.
func (v value) Each(fn func(v value) bool) {
	text, base := v.text, v.typ&^kindArray
	for len(text) > 0 {
		item := value{typ: base}
		if base == kindString {
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
