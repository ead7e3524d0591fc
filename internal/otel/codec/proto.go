package codec

import (
	"encoding/binary"
	"math"
	"unicode/utf8"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/entrace-go/entrace/format"
	"github.com/entrace-go/entrace/internal/core/wire"
	"github.com/entrace-go/entrace/internal/otel"
)

// A fieldReader is an input in protobuf. It reads the fields of the message in b[i:end].
type fieldReader struct {
	b   []byte
	i   int
	end int
	// cut says that the input may end within the message. If a nested message is longer than the rest of the input,
	// its fields up to the end of the input are read, and the error is format.ErrTruncated, not ErrField.
	cut bool
	err error
	at  int // the offset of the error

	number protowire.Number
	kind   protowire.Type
}

func (f *fieldReader) seek(off int64) {
	*f = fieldReader{b: f.b, i: int(off), end: len(f.b), kind: protowire.BytesType}
}

func (f *fieldReader) offset() int64 { return int64(f.i) }

func (f *fieldReader) failure() *Error {
	if f.err == nil {
		return nil
	}
	return &Error{Offset: int64(f.at), Err: f.err}
}

func (f *fieldReader) fail(err error) {
	if f.err == nil {
		f.err, f.at = err, f.i
	}
}

func (f *fieldReader) field(n fieldNames, next int) int {
	for f.next() {
		if i := n.number(f.number, next); i >= 0 {
			return i
		}
		f.skip()
	}
	return -1
}

// next reads the tag of the next field and reports whether there is one.
func (f *fieldReader) next() bool {
	if f.err != nil {
		return false
	}
	if f.i >= f.end {
		if f.cut {
			f.err, f.at = format.ErrTruncated, f.end
		}
		return false
	}
	if b := f.b[f.i]; b >= 1<<3 && b < 0x80 { // most tags are one byte
		f.number, f.kind = protowire.Number(b>>3), protowire.Type(b&7)
		f.i++
		return true
	}
	num, kind, n := protowire.ConsumeTag(f.b[f.i:f.end])
	if n < 0 {
		f.bad(n)
		return false
	}
	f.i += n
	f.number, f.kind = num, kind
	return true
}

// bad records an error at the offset i. n is the error number from protowire.
func (f *fieldReader) bad(n int) {
	if f.cut && protowire.ParseError(n) == protowire.ParseError(shortInput) { //nolint:errorlint // it is never wrapped
		f.err, f.at = format.ErrTruncated, f.end
		return
	}
	f.err, f.at = ErrField, f.i
}

// shortInput is the error number of protowire for an input that ends too early.
var shortInput = func() int {
	_, n := protowire.ConsumeVarint(nil)
	return n
}()

// skip skips the value of the field.
func (f *fieldReader) skip() {
	if f.err != nil {
		return
	}
	if f.kind == protowire.BytesType && f.i < f.end && int(f.b[f.i]) < min(0x80, f.end-f.i) {
		f.i += 1 + int(f.b[f.i]) // most values are short
		return
	}
	n := protowire.ConsumeFieldValue(f.number, f.kind, f.b[f.i:f.end])
	if n < 0 {
		f.bad(n)
		return
	}
	f.i += n
}

// is reports whether the field has the given wire type. Otherwise it skips the field like an unknown field.
func (f *fieldReader) is(kind protowire.Type) bool {
	if f.err == nil && f.kind == kind {
		return true
	}
	f.skip()
	return false
}

func (f *fieldReader) enter(whole bool) frame {
	up := frame{f.end, f.cut}
	if !f.is(protowire.BytesType) {
		f.end, f.cut = f.i, false
		return up
	}
	if f.i < f.end && int(f.b[f.i]) < min(0x80, f.end-f.i) { // most values are short
		f.i++
		f.end, f.cut = f.i+int(f.b[f.i-1]), false
		return up
	}
	n, size := protowire.ConsumeVarint(f.b[f.i:f.end])
	left := f.end - f.i - size
	switch {
	case size < 0:
		f.bad(size)
		f.end = f.i
	case n <= uint64(left):
		f.i += size
		f.end, f.cut = f.i+int(n), false
	case !f.cut:
		f.fail(ErrField)
		f.end = f.i
	case whole:
		f.err, f.at = format.ErrTruncated, f.end
		f.end = f.i
	default:
		f.i += size
	}
	return up
}

func (f *fieldReader) leave(up frame) { f.end, f.cut = up.end, up.cut }

// first reports whether the field is a message, that is, the first item of a list.
func (f *fieldReader) first() bool { return f.is(protowire.BytesType) }

func (f *fieldReader) more() bool { return false }

func (f *fieldReader) place() Place {
	from := f.i
	if !f.is(protowire.BytesType) {
		return nowhere
	}
	f.skip()
	if f.err != nil {
		return nowhere
	}
	return Place{int64(from), int64(f.i)}
}

// The tags of the fields of a KeyValue and of its value.
const (
	tagKey    = 1<<3 | byte(protowire.BytesType)
	tagValue  = 2<<3 | byte(protowire.BytesType)
	tagString = 1<<3 | byte(protowire.BytesType)
	tagBool   = 2<<3 | byte(protowire.VarintType)
	tagInt    = 3<<3 | byte(protowire.VarintType)
)

// quickAttribute reads a KeyValue of less than 128 bytes whose value is a text, a bool or an integer.
func (f *fieldReader) quickAttribute() (a otel.Attribute, ok bool) {
	b := f.b[f.i:f.end]
	if f.err != nil || len(b) == 0 || int(b[0]) >= min(0x80, len(b)) {
		return a, false
	}
	b = b[1 : 1+int(b[0])]
	if len(b) < 2 || 2+int(b[1])+2 > len(b) {
		return a, false
	}
	name, value := b[:2+int(b[1])], b[2+int(b[1]):]
	if name[0] == tagValue { // some programs write the value before the key
		name, value = value, name
	}
	if name[0] != tagKey || int(name[1]) != len(name)-2 || value[0] != tagValue || int(value[1]) != len(value)-2 || len(value) < 4 {
		return a, false
	}
	name = name[2:]
	value = value[2:]
	switch {
	case value[0] == tagString && int(value[1]) == len(value)-2:
		text := value[2:]
		if !utf8.Valid(text) {
			return a, false
		}
		a.Value = format.StringValue(wire.View(text))
	case value[0] == tagBool && len(value) == 2 && value[1] <= 1:
		a.Value = format.BoolValue(value[1] == 1)
	case value[0] == tagInt:
		n, size := protowire.ConsumeVarint(value[1:])
		if size != len(value)-1 {
			return a, false
		}
		a.Value = format.I64Value(int64(n))
	default:
		return a, false
	}
	if !utf8.Valid(name) {
		return a, false
	}
	a.Name = wire.View(name)
	f.i += 1 + len(b)
	return a, true
}

// text returns the bytes of a field, which need not be UTF-8.
func (f *fieldReader) text() string {
	up := f.enter(true)
	s := f.b[f.i:f.end]
	f.i = f.end
	f.leave(up)
	return wire.View(s)
}

func (f *fieldReader) bytes() string { return f.text() }

// id reads an id. An empty field means no id.
func (f *fieldReader) id(id []byte) {
	at := f.i
	s := f.text()
	switch {
	case f.err != nil:
	case len(s) == len(id):
		copy(id, s)
	case len(s) == 0:
		clear(id)
	default:
		f.err, f.at = ErrID, at
	}
}

func (f *fieldReader) varint() uint64 {
	if !f.is(protowire.VarintType) {
		return 0
	}
	n, size := protowire.ConsumeVarint(f.b[f.i:f.end])
	if size < 0 {
		f.bad(size)
		return 0
	}
	f.i += size
	return n
}

func (f *fieldReader) fixed64() uint64 {
	if !f.is(protowire.Fixed64Type) {
		return 0
	}
	if f.end-f.i < 8 {
		f.bad(shortInput)
		return 0
	}
	f.i += 8
	return binary.LittleEndian.Uint64(f.b[f.i-8:])
}

func (f *fieldReader) fixed32() uint32 {
	if !f.is(protowire.Fixed32Type) {
		return 0
	}
	if f.end-f.i < 4 {
		f.bad(shortInput)
		return 0
	}
	f.i += 4
	return binary.LittleEndian.Uint32(f.b[f.i-4:])
}

func (f *fieldReader) float() float64 { return math.Float64frombits(f.fixed64()) }

func (f *fieldReader) count() uint32 { return uint32(f.varint()) }

func (f *fieldReader) enum(map[string]int32) int32 { return int32(f.varint()) }

func (f *fieldReader) bool() bool { return f.varint() != 0 }

func (f *fieldReader) int() int64 { return int64(f.varint()) }

func (f *fieldReader) isObject() bool { return false }

// looseID is like id, but treats an invalid id as no id.
func (f *fieldReader) looseID(id []byte) {
	f.id(id)
	if f.err == ErrID { //nolint:errorlint // it is never wrapped
		f.err = nil
		clear(id)
	}
}
