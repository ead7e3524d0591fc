package slogadapter

import (
	"bytes"
	"encoding"
	"encoding/json"
	"fmt"
	"log/slog"
	"reflect"
	"slices"
	"unicode/utf8"

	"github.com/entrace-go/entrace/format"
)

// value returns what v, which is resolved, is stored as, and whether that is a
// JSON text.
func (s *state) value(v slog.Value) (_ format.Value, isJSON bool) {
	switch v.Kind() {
	case slog.KindString:
		return format.StringValue(s.limit(v.String())), false
	case slog.KindInt64:
		return format.I64Value(v.Int64()), false
	case slog.KindUint64:
		return format.U64Value(v.Uint64()), false
	case slog.KindFloat64:
		return format.FloatValue(v.Float64()), false
	case slog.KindBool:
		return format.BoolValue(v.Bool()), false
	case slog.KindDuration:
		return format.I64Value(int64(v.Duration())), false
	case slog.KindTime:
		mark := s.text.Mark()
		s.text.B = appendTime(s.text.B, v.Time())
		return format.StringValue(s.limit(s.text.From(mark))), false
	case slog.KindAny:
		return s.any(v.Any())
	}
	return format.StringValue(s.limit(v.String())), false
}

// any returns what a value of any type is stored as.
func (s *state) any(x any) (_ format.Value, isJSON bool) {
	switch x := x.(type) {
	case nil:
		return format.StringValue("null"), true
	case []byte:
		return s.blob(x), false
	case error:
		text, _ := s.call(x, func() (string, error) { return x.Error(), nil })
		return text, false
	case json.Marshaler:
		return s.json(x)
	case encoding.TextMarshaler:
		text, _ := s.call(x, func() (string, error) {
			b, err := x.MarshalText()
			return string(b), err
		})
		return text, false
	}
	switch v := reflect.ValueOf(x); v.Kind() {
	case reflect.Bool:
		return format.BoolValue(v.Bool()), false
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		return format.I64Value(v.Int()), false
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64, reflect.Uintptr:
		return format.U64Value(v.Uint()), false
	case reflect.Float32, reflect.Float64:
		return format.FloatValue(v.Float()), false
	case reflect.String:
		return format.StringValue(s.limit(v.String())), false
	}
	return s.json(x)
}

// blob returns Bytes, as many as there is room for.
func (s *state) blob(b []byte) format.Value {
	if room := max(s.core.maxBytes-s.bytes, 0); len(b) > room {
		b, s.cut = b[:room], true
	}
	s.bytes += len(b)
	if s.keep {
		b = slices.Clone(b)
	}
	return format.BytesValue(b)
}

// json returns the JSON of x, or what was wrong with it.
func (s *state) json(x any) (_ format.Value, isJSON bool) {
	v, ok := s.call(x, func() (string, error) {
		var b bytes.Buffer
		e := json.NewEncoder(&b)
		e.SetEscapeHTML(false)
		if err := e.Encode(x); err != nil {
			return "", err
		}
		text := bytes.TrimSuffix(b.Bytes(), []byte("\n"))
		if !utf8.Valid(text) { // a json.Marshaler may return what encoding/json would not
			return string(bytes.Runes(text)), nil
		}
		return string(text), nil
	})
	return v, ok
}

// call returns the text that fn, which runs methods of x, returns, and whether
// that is all of it. It returns the text of an error or panic in its place.
func (s *state) call(x any, fn func() (string, error)) (_ format.Value, whole bool) {
	text, ok := guarded(x, fn)
	cut := s.limit(text)
	return format.StringValue(cut), ok && len(cut) == len(text)
}

func guarded(x any, fn func() (string, error)) (text string, ok bool) {
	defer func() {
		r := recover()
		if r == nil {
			return
		}
		// A method that does not expect its receiver to be nil is no accident
		// worth a panic's text.
		if v := reflect.ValueOf(x); v.Kind() == reflect.Pointer && v.IsNil() {
			text, ok = "<nil>", false
			return
		}
		text, ok = "!PANIC: "+panicText(r), false
	}()
	text, err := fn()
	if err != nil {
		return err.Error(), false
	}
	return text, true
}

// panicText describes the value of a panic. It prints nothing composite, which
// could contain itself.
func panicText(r any) (text string) {
	defer func() {
		if recover() != nil {
			text = fmt.Sprintf("%T", r)
		}
	}()
	switch r := r.(type) {
	case error:
		return r.Error()
	case string:
		return r
	case fmt.Stringer:
		return r.String()
	}
	if v := reflect.ValueOf(r); v.IsValid() && v.Kind() <= reflect.Complex128 {
		return fmt.Sprint(r)
	}
	return fmt.Sprintf("%T", r)
}
