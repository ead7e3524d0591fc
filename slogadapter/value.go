package slogadapter

import (
	"bytes"
	"encoding"
	"encoding/json"
	"math"
	"reflect"
	"strconv"
	"time"
	"unicode/utf8"

	"github.com/entrace-go/entrace/internal/write/safecall"
)

// maxTime is the size of the text of a time.
const maxTime = len("2006-01-02T15:04:05.999999999+00:00")

// Between these seconds since 1970 the year has four digits in every time zone.
const (
	minYears = -62_167_219_200 + 24*60*60
	maxYears = 253_402_300_799 - 24*60*60
)

func (e *encoder) time(key string, t time.Time) {
	sec := t.Unix()
	odd := (sec < minYears || sec > maxYears) && (t.Year() > 9999 || t.Year() < 0)
	offset := 0
	if t.Location() != time.UTC {
		_, offset = t.Zone()
	}
	if odd || offset%60 != 0 || !e.take(maxTime) {
		e.b.String(key, e.text(t.Format(time.RFC3339Nano)))
		return
	}
	e.b.Time(key, t)
}

// any adds an attribute with a value of any type.
func (e *encoder) any(key string, x any) {
	switch x := x.(type) {
	case nil:
		e.b.JSON(key, "null")
		return
	case []byte:
		e.inside.Bytes(key, e.blob(x))
		return
	case error:
		e.b.String(key, e.text(errorText(x)))
		return
	case json.Marshaler:
		text, ok := guarded(x, marshalJSON(x))
		if !ok || !e.scalar(key, text) {
			e.json(key, text, ok)
		}
		return
	case json.Number:
		if !e.number(key, string(x)) {
			e.b.String(key, e.text(string(x)))
		}
		return
	case encoding.TextMarshaler:
		e.b.String(key, e.text(marshaledText(x)))
		return
	}
	v := reflect.ValueOf(x)
	if v.Kind() == reflect.Pointer && !v.IsNil() {
		if to := v.Elem(); to.Kind() <= reflect.Float64 || to.Kind() == reflect.String {
			v = to // a pointer to a basic type counts as the value it points to
		}
	}
	switch v.Kind() {
	case reflect.Bool:
		e.b.Bool(key, v.Bool())
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		e.b.I64(key, v.Int())
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64, reflect.Uintptr:
		e.b.U64(key, v.Uint())
	case reflect.Float32, reflect.Float64:
		e.b.Float(key, math.Float64bits(v.Float()))
	case reflect.String:
		e.b.String(key, e.text(v.String()))
	default:
		text, ok := guarded(x, marshalJSON(x))
		e.json(key, text, ok)
	}
}

func marshaledText(x encoding.TextMarshaler) string {
	text, _ := guarded(x, func() (string, error) {
		b, err := x.MarshalText()
		return string(b), err
	})
	return text
}

// json adds a JSON text. If isJSON is not set, the text is the error or panic of a method.
func (e *encoder) json(key, text string, isJSON bool) {
	if cut := e.text(text); isJSON && len(cut) == len(text) {
		e.b.JSON(key, cut)
	} else {
		e.b.String(key, cut)
	}
}

// scalar adds the text, the number or the boolean in a JSON text, and reports whether the JSON text has one.
func (e *encoder) scalar(key, text string) bool {
	switch text[0] {
	case '"':
		err := json.Unmarshal([]byte(text), &text)
		if err == nil {
			e.b.String(key, e.text(text))
		}
		return err == nil
	case 't', 'f':
		e.b.Bool(key, text == "true")
		return true
	}
	return e.number(key, text)
}

// number adds the number in a JSON text, and reports whether the text has one. It adds nothing and returns false for
// a fraction with more digits than a float64 keeps.
func (e *encoder) number(key, text string) bool {
	if n, err := strconv.ParseInt(text, 10, 64); err == nil {
		e.b.I64(key, n)
		return true
	}
	if n, err := strconv.ParseUint(text, 10, 64); err == nil {
		e.b.U64(key, n)
		return true
	}
	f, err := strconv.ParseFloat(text, 64)
	is := err == nil && len(text) <= maxDigits && text[0] <= '9'
	if is {
		e.b.Float(key, math.Float64bits(f))
	}
	return is
}

// maxDigits is the number of digits, with a decimal point, that a float64 keeps.
const maxDigits = 16

func marshalJSON(x any) func() (string, error) {
	return func() (string, error) {
		var b bytes.Buffer
		enc := json.NewEncoder(&b)
		enc.SetEscapeHTML(false)
		if err := enc.Encode(x); err != nil {
			return "", err
		}
		text := bytes.TrimSuffix(b.Bytes(), []byte("\n"))
		if !utf8.Valid(text) { // encoding/json itself writes valid UTF-8, but a json.Marshaler may not
			return string(bytes.Runes(text)), nil
		}
		return string(text), nil
	}
}

// anyText returns the text of a value of any type.
func anyText(x any) string {
	switch x := x.(type) {
	case nil:
		return "null"
	case []byte:
		return string(x)
	case error:
		return errorText(x)
	case json.Marshaler:
	case encoding.TextMarshaler:
		return marshaledText(x)
	}
	switch v := reflect.ValueOf(x); v.Kind() {
	case reflect.Bool:
		return strconv.FormatBool(v.Bool())
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		return strconv.FormatInt(v.Int(), 10)
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64, reflect.Uintptr:
		return strconv.FormatUint(v.Uint(), 10)
	case reflect.Float32, reflect.Float64:
		return strconv.FormatFloat(v.Float(), 'g', -1, 64)
	case reflect.String:
		return v.String()
	}
	text, _ := guarded(x, marshalJSON(x))
	return text
}

// guarded calls fn, which calls methods of x, and returns its text and true. If fn fails
// or panics, guarded returns the text of the error or panic and false.
func guarded(x any, fn func() (string, error)) (text string, ok bool) {
	defer func() {
		if r := recover(); r != nil {
			text, ok = panicked(x, r), false
		}
	}()
	text, err := fn()
	if err != nil {
		return err.Error(), false
	}
	return text, true
}

// errorText returns the text of an error, or the text of the panic of its Error method.
func errorText(x error) (text string) {
	defer func() {
		if r := recover(); r != nil {
			text = panicked(x, r)
		}
	}()
	return x.Error()
}

// panicked returns the text to record for x after one of its methods panicked with r.
func panicked(x, r any) string {
	// Methods often do not expect a nil receiver. The text of such a panic would not help.
	if v := reflect.ValueOf(x); v.Kind() == reflect.Pointer && v.IsNil() {
		return "<nil>"
	}
	return "!PANIC: " + safecall.Text(r)
}
