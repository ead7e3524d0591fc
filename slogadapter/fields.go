package slogadapter

import (
	"encoding/binary"
	"log/slog"
	"math"
	"reflect"
	"unsafe"

	"github.com/entrace-go/entrace/format"
)

// fields are the attributes of a record, where it keeps them: [slog.Record.Attrs]
// copies each and calls a function for it, which for ten of them takes as long as
// encoding them does. They belong to the record.
type fields struct {
	front, back []slog.Attr
	texts       [maxErrors]string // of the values that are errors, in their order
	errors      int               // how many of them were put there, or taken
}

// maxErrors is how many values of a record may be errors.
const maxErrors = 4

// recordLayout says where in a slog.Record what is, as far as that is what this
// package was written for.
var recordLayout = func() (l struct {
	known              bool
	front, count, back uintptr
	room               int
},
) {
	record := reflect.TypeFor[slog.Record]()
	front, hasFront := record.FieldByName("front")
	count, hasCount := record.FieldByName("nFront")
	back, hasBack := record.FieldByName("back")
	attr := reflect.TypeFor[slog.Attr]()
	if !hasFront || !hasCount || !hasBack || front.Type.Kind() != reflect.Array || front.Type.Elem() != attr ||
		count.Type != reflect.TypeFor[int]() || back.Type != reflect.SliceOf(attr) {
		return l
	}
	l.front, l.count, l.back = front.Offset, count.Offset, back.Offset
	l.room, l.known = front.Type.Len(), true
	return l
}()

// attrsOf finds the attributes of r, unless records are not what they were.
func attrsOf(r *slog.Record) (front, back []slog.Attr, ok bool) {
	l := &recordLayout
	if !l.known {
		return nil, nil, false
	}
	n := *(*int)(unsafe.Add(unsafe.Pointer(r), l.count))
	if n < 0 || n > l.room {
		return nil, nil, false
	}
	front = unsafe.Slice((*slog.Attr)(unsafe.Add(unsafe.Pointer(r), l.front)), n)
	back = *(*[]slog.Attr)(unsafe.Add(unsafe.Pointer(r), l.back))
	return front, back, n+len(back) <= maxShapeAttrs
}

// at returns the attribute i.
func (f *fields) at(i int) *slog.Attr {
	if i < len(f.front) {
		return &f.front[i]
	}
	return &f.back[i-len(f.front)]
}

// render renders attributes that have the keys of rows, for [shape.render].
func (f *fields) render(rows []row, attrs []slog.Attr) (texts int, ok bool) {
	for i := range attrs {
		v := &attrs[i].Value
		switch v.Kind() {
		case slog.KindString:
			texts += len(v.String())
		case slog.KindInt64, slog.KindUint64, slog.KindFloat64, slog.KindBool, slog.KindDuration, slog.KindTime:
		case slog.KindAny:
			switch a := v.Any().(type) {
			case nil:
				if !rows[i].null {
					return 0, false
				}
			case error:
				text, ok := errorText(a)
				if !ok || f.errors == maxErrors {
					return 0, false
				}
				f.texts[f.errors] = text
				f.errors++
				texts += len(text)
			default:
				return 0, false
			}
		default:
			return 0, false
		}
	}
	return texts, true
}

// number notes of each attribute how many before it are errors.
func (f *fields) number(errors *[maxShapeAttrs]uint8) {
	n := uint8(0)
	for i := range len(f.front) + len(f.back) {
		errors[i] = n
		if v := &f.at(i).Value; v.Kind() == slog.KindAny && v.Any() != nil {
			n++
		}
	}
}

// put puts attributes with the names of rows at n, as version 1 has them.
func (f *fields) put(b []byte, n int, rows []row, attrs []slog.Attr) int {
	for i := range attrs {
		row := &rows[i]
		if row.long == nil {
			*(*[shortName]byte)(b[n:]) = row.short
			n += row.size
		} else {
			n += copy(b[n:], row.long)
		}
		n = f.value(b, n, &attrs[i].Value)
	}
	return n
}

// value puts a value that was rendered at n. There is room.
func (f *fields) value(b []byte, n int, v *slog.Value) int {
	switch v.Kind() {
	case slog.KindString:
		return putText(b, n, v.String())
	case slog.KindInt64:
		b[n] = byte(format.KindI64)
		return putUint(b, n+1, zigzag(v.Int64()))
	case slog.KindDuration:
		b[n] = byte(format.KindI64)
		return putUint(b, n+1, zigzag(int64(v.Duration())))
	case slog.KindUint64:
		b[n] = byte(format.KindU64)
		return putUint(b, n+1, v.Uint64())
	case slog.KindFloat64:
		b[n] = byte(format.KindFloat)
		binary.LittleEndian.PutUint64(b[n+1:], math.Float64bits(v.Float64()))
		return n + 9
	case slog.KindBool:
		b[n], b[n+1] = byte(format.KindBool), 0
		if v.Bool() {
			b[n+1] = 1
		}
		return n + 2
	case slog.KindTime:
		b[n] = byte(format.KindString)
		end := len(appendTime(b[:n+2], v.Time())) // some 40 at most
		b[n+1] = byte(end - n - 2)
		return end
	}
	if v.Any() == nil {
		return n + copy(b[n:], null)
	}
	text := f.texts[f.errors]
	f.errors++
	return putText(b, n, text)
}
