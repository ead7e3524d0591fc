package otlp

import (
	"encoding/binary"
	"math"
	"unsafe"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/entrace-go/entrace/format"
)

// A fieldReader reads the fields of one message of protobuf, which are in
// b[i:end]. Its error sticks: after it there are no more fields and values are
// zero.
type fieldReader struct {
	b   []byte
	i   int
	end int
	// cut says that the input stops within the message: what ends at end early is
	// not wrong, but there is no more of it.
	cut bool
	err error
	at  int // where the error is

	number protowire.Number
	kind   protowire.Type
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
	num, kind, n := protowire.ConsumeTag(f.b[f.i:f.end])
	if n < 0 {
		f.bad(n)
		return false
	}
	f.i += n
	f.number, f.kind = num, kind
	return true
}

// bad notes what protowire has found, at i.
func (f *fieldReader) bad(n int) {
	if f.cut && protowire.ParseError(n) == protowire.ParseError(shortInput) { //nolint:errorlint // it is never wrapped
		f.err, f.at = format.ErrTruncated, f.end
		return
	}
	f.err, f.at = ErrField, f.i
}

// shortInput is what protowire returns for an input that ends too early.
var shortInput = func() int {
	_, n := protowire.ConsumeVarint(nil)
	return n
}()

// skip passes over the value of the field.
func (f *fieldReader) skip() {
	if f.err != nil {
		return
	}
	if f.kind == protowire.StartGroupType || f.kind == protowire.EndGroupType {
		f.err, f.at = ErrField, f.i // OTLP has no groups
		return
	}
	n := protowire.ConsumeFieldValue(f.number, f.kind, f.b[f.i:f.end])
	if n < 0 {
		f.bad(n)
		return
	}
	f.i += n
}

// is reports whether the field is of a kind. Else it is none that is known, and
// skipped.
func (f *fieldReader) is(kind protowire.Type) bool {
	if f.err == nil && f.kind == kind {
		return true
	}
	f.skip()
	return false
}

// message returns a reader of the field, a message, which may be cut.
func (f *fieldReader) message() fieldReader {
	sub := fieldReader{b: f.b, i: f.i, end: f.i}
	if !f.is(protowire.BytesType) {
		return sub
	}
	n, size := protowire.ConsumeVarint(f.b[f.i:f.end])
	if size < 0 {
		f.bad(size)
		return sub
	}
	sub.i = f.i + size
	sub.end = sub.i
	if left := f.end - sub.i; n > uint64(left) {
		if !f.cut {
			f.err, f.at = ErrField, f.i
			return sub
		}
		sub.end, sub.cut = f.end, true
	} else {
		sub.end = sub.i + int(n)
	}
	f.i = sub.end
	return sub
}

// whole returns a reader of the field, a message that must not be cut.
func (f *fieldReader) whole() fieldReader {
	sub := f.message()
	if sub.cut {
		f.err, f.at = format.ErrTruncated, f.end
		sub.i, sub.cut = sub.end, false
	}
	return sub
}

// join takes over the error of a reader of a field.
func (f *fieldReader) join(sub *fieldReader) {
	if f.err == nil {
		f.err, f.at = sub.err, sub.at
	}
}

// string returns the text of the field, which aliases the input. It need not be
// UTF-8.
func (f *fieldReader) string() string {
	sub := f.whole()
	if f.err != nil {
		return ""
	}
	return unsafe.String(unsafe.SliceData(sub.b[sub.i:sub.end]), sub.end-sub.i)
}

// id reads an id; no bytes are none.
func (f *fieldReader) id(id []byte) {
	at := f.i
	s := f.string()
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

func (f *fieldReader) double() float64 { return math.Float64frombits(f.fixed64()) }
