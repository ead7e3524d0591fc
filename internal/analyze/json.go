package analyze

import (
	"bytes"
	"encoding"
	"encoding/json"
	"math"
	"reflect"
	"strconv"
	"strings"

	"github.com/entrace-go/entrace/query"
	"github.com/entrace-go/entrace/view"
)

// A Time is a time in nanoseconds since 1970, or NoTime, which is null in JSON.
type Time int64

// NoTime is the value of an unknown time.
const NoTime Time = math.MinInt64

// MarshalJSON implements [json.Marshaler].
func (t Time) MarshalJSON() ([]byte, error) {
	if t == NoTime {
		return []byte("null"), nil
	}
	return strconv.AppendInt(nil, int64(t), 10), nil
}

// A Form determines how an answer encodes rows, tables and texts. Row is never called for row 0, which is null.
type Form struct {
	Row   func(r view.Row) (any, error) // returns the value that represents a row
	Table func(t *query.Table) (any, error)
	Text  func(s string) string // shortens texts; if nil, texts are not shortened
}

// JSON encodes an answer of this package, or a struct with such answers. Other values are encoded by the tags of
// their fields, as in encoding/json, except that nil lists are encoded as empty lists.
func (f *Form) JSON(answer any, indent string) ([]byte, error) {
	b, err := f.append(nil, reflect.ValueOf(answer))
	if err != nil || indent == "" {
		return b, err
	}
	var out bytes.Buffer
	err = json.Indent(&out, b, "", indent)
	return out.Bytes(), err
}

func (f *Form) append(b []byte, v reflect.Value) ([]byte, error) {
	if !v.IsValid() || (v.Kind() == reflect.Pointer || v.Kind() == reflect.Interface) && v.IsNil() {
		return append(b, "null"...), nil
	}
	with := func(x any, err error) ([]byte, error) {
		if err != nil {
			return nil, err
		}
		return f.append(b, reflect.ValueOf(x))
	}
	var x any
	switch y := v.Interface().(type) {
	case view.Row:
		if y == 0 {
			return append(b, "null"...), nil
		}
		return with(f.Row(y))
	case *query.Table:
		return with(f.Table(y))
	case string:
		x = y
		if f.Text != nil {
			x = f.Text(y)
		}
	case json.Marshaler, encoding.TextMarshaler:
		x = y
	default:
		return f.appendParts(b, v)
	}
	part, err := json.Marshal(x)
	return append(b, part...), err
}

func (f *Form) appendParts(b []byte, v reflect.Value) (_ []byte, err error) {
	switch v.Kind() {
	case reflect.Pointer, reflect.Interface:
		return f.append(b, v.Elem())
	case reflect.Slice:
		b = append(b, '[')
		for i := range v.Len() {
			if i > 0 {
				b = append(b, ',')
			}
			b, err = f.append(b, v.Index(i))
			if err != nil {
				return nil, err
			}
		}
		return append(b, ']'), nil
	case reflect.Struct:
		b, err = f.appendFields(append(b, '{'), v)
		if err != nil {
			return nil, err
		}
		return append(bytes.TrimSuffix(b, []byte(",")), '}'), nil
	}
	part, err := json.Marshal(v.Interface())
	return append(b, part...), err
}

func (f *Form) appendFields(b []byte, v reflect.Value) (_ []byte, err error) {
	for i := range v.NumField() {
		field := v.Type().Field(i)
		key, options, _ := strings.Cut(field.Tag.Get("json"), ",")
		switch {
		case field.Anonymous:
			b, err = f.appendFields(b, reflect.Indirect(v.Field(i)))
		case key == "" || key == "-" || options != "" && v.Field(i).IsZero():
		default:
			b, err = f.append(append(strconv.AppendQuote(b, key), ':'), v.Field(i))
			b = append(b, ',')
		}
		if err != nil {
			return nil, err
		}
	}
	return b, nil
}
