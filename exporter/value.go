package exporter

import (
	"encoding/base64"
	"math"
	"strconv"
	"unicode/utf8"

	"go.opentelemetry.io/otel/attribute"

	"github.com/entrace-go/entrace/format"
	"github.com/entrace-go/entrace/internal/jsontext"
)

// A shape says how an attribute's value is stored.
type shape uint8

const (
	native   shape = iota // as the format's own kind
	json                  // as JSON text
	anyValue              // as OTLP/JSON AnyValue text
)

// value adds the attribute name to the entry that is built.
func (m *mapper) value(name string, v *attribute.Value) {
	switch v.Type() {
	case attribute.STRING:
		m.b.String(name, v.AsString())
	case attribute.INT64:
		m.b.I64(name, v.AsInt64())
	case attribute.BOOL:
		m.b.Bool(name, v.AsBool())
	case attribute.FLOAT64:
		m.b.Float(name, v.AsFloat64())
	case attribute.BYTESLICE:
		m.b.Bytes(name, v.AsByteSlice())
	default:
		mark := m.text.Mark()
		var s shape
		m.text.B, s = appendComposite(m.text.B, v)
		if s == json {
			m.b.JSON(name, m.text.From(mark))
		} else {
			m.b.AnyValue(name, m.text.From(mark))
		}
	}
}

// stored returns what v is stored as.
func stored(v *attribute.Value) (format.Value, shape) {
	switch v.Type() {
	case attribute.BOOL:
		return format.BoolValue(v.AsBool()), native
	case attribute.INT64:
		return format.I64Value(v.AsInt64()), native
	case attribute.FLOAT64:
		return format.FloatValue(v.AsFloat64()), native
	case attribute.STRING:
		return format.StringValue(v.AsString()), native
	case attribute.BYTESLICE:
		return format.BytesValue(v.AsByteSlice()), native
	}
	b, s := appendComposite(nil, v)
	return format.StringValue(string(b)), s
}

// appendComposite appends the text that a value is stored as that is of no kind
// of the format's own.
func appendComposite(b []byte, v *attribute.Value) ([]byte, shape) {
	mark := len(b)
	b, ok := appendJSON(b, *v)
	if !ok {
		return appendAnyValue(b[:mark], *v), anyValue
	}
	return b, json
}

// appendJSON appends v as JSON from which its kinds can be told, and reports
// false when JSON cannot hold it so.
func appendJSON(b []byte, v attribute.Value) ([]byte, bool) {
	switch v.Type() {
	case attribute.BOOL:
		return strconv.AppendBool(b, v.AsBool()), true
	case attribute.INT64:
		return strconv.AppendInt(b, v.AsInt64(), 10), true
	case attribute.FLOAT64:
		return jsontext.AppendFloat(b, v.AsFloat64())
	case attribute.STRING:
		return appendText(b, v.AsString())
	case attribute.BOOLSLICE:
		return appendArray(b, v.AsBoolSlice(), func(b []byte, x bool) ([]byte, bool) { return strconv.AppendBool(b, x), true })
	case attribute.INT64SLICE:
		return appendArray(b, v.AsInt64Slice(), func(b []byte, x int64) ([]byte, bool) { return strconv.AppendInt(b, x, 10), true })
	case attribute.FLOAT64SLICE:
		return appendArray(b, v.AsFloat64Slice(), jsontext.AppendFloat)
	case attribute.STRINGSLICE:
		return appendArray(b, v.AsStringSlice(), appendText)
	case attribute.SLICE:
		return appendArray(b, v.AsSlice(), appendJSON)
	case attribute.MAP:
		return appendObject(b, v.AsMap())
	case attribute.EMPTY:
		return append(b, "null"...), true
	}
	return b, false // bytes, and kinds that came later
}

func appendText(b []byte, s string) ([]byte, bool) {
	return jsontext.AppendString(b, s), utf8.ValidString(s)
}

func appendArray[T any](b []byte, items []T, item func([]byte, T) ([]byte, bool)) ([]byte, bool) {
	b = append(b, '[')
	for i, x := range items {
		if i > 0 {
			b = append(b, ',')
		}
		var ok bool
		if b, ok = item(b, x); !ok {
			return b, false
		}
	}
	return append(b, ']'), true
}

func appendObject(b []byte, kvs []attribute.KeyValue) ([]byte, bool) {
	seen := make(map[attribute.Key]bool, len(kvs))
	b = append(b, '{')
	for i, kv := range kvs {
		if seen[kv.Key] {
			return b, false
		}
		seen[kv.Key] = true
		if i > 0 {
			b = append(b, ',')
		}
		var ok bool
		if b, ok = appendText(b, string(kv.Key)); !ok {
			return b, false
		}
		if b, ok = appendJSON(append(b, ':'), kv.Value); !ok {
			return b, false
		}
	}
	return append(b, '}'), true
}

// appendAnyValue appends v as OTLP/JSON has it. A string that is not UTF-8 is
// bytes there.
func appendAnyValue(b []byte, v attribute.Value) []byte {
	switch v.Type() {
	case attribute.BOOL:
		b = strconv.AppendBool(append(b, `{"boolValue":`...), v.AsBool())
	case attribute.INT64:
		b = append(strconv.AppendInt(append(b, `{"intValue":"`...), v.AsInt64(), 10), '"')
	case attribute.FLOAT64:
		b = append(b, `{"doubleValue":`...)
		f := v.AsFloat64()
		if math.IsNaN(f) || math.IsInf(f, 0) {
			b = jsontext.AppendString(b, jsontext.FloatName(f))
		} else {
			b, _ = jsontext.AppendFloat(b, f)
		}
	case attribute.STRING:
		s := v.AsString()
		if !utf8.ValidString(s) {
			return appendBytes(b, []byte(s))
		}
		b = jsontext.AppendString(append(b, `{"stringValue":`...), s)
	case attribute.BYTESLICE:
		return appendBytes(b, v.AsByteSlice())
	case attribute.BOOLSLICE:
		return appendAnyArray(b, v.AsBoolSlice(), attribute.BoolValue)
	case attribute.INT64SLICE:
		return appendAnyArray(b, v.AsInt64Slice(), attribute.Int64Value)
	case attribute.FLOAT64SLICE:
		return appendAnyArray(b, v.AsFloat64Slice(), attribute.Float64Value)
	case attribute.STRINGSLICE:
		return appendAnyArray(b, v.AsStringSlice(), attribute.StringValue)
	case attribute.SLICE:
		return appendAnyArray(b, v.AsSlice(), func(v attribute.Value) attribute.Value { return v })
	case attribute.MAP:
		b = append(b, `{"kvlistValue":{"values":[`...)
		for i, kv := range v.AsMap() {
			if i > 0 {
				b = append(b, ',')
			}
			b = jsontext.AppendString(append(b, `{"key":`...), string(kv.Key))
			b = append(appendAnyValue(append(b, `,"value":`...), kv.Value), '}')
		}
		return append(b, `]}}`...)
	case attribute.EMPTY:
		return append(b, `{}`...)
	default: // a kind that came later
		b = jsontext.AppendString(append(b, `{"stringValue":`...), v.String())
	}
	return append(b, '}')
}

func appendBytes(b, data []byte) []byte {
	b = base64.StdEncoding.AppendEncode(append(b, `{"bytesValue":"`...), data)
	return append(b, `"}`...)
}

func appendAnyArray[T any](b []byte, items []T, value func(T) attribute.Value) []byte {
	b = append(b, `{"arrayValue":{"values":[`...)
	for i, x := range items {
		if i > 0 {
			b = append(b, ',')
		}
		b = appendAnyValue(b, value(x))
	}
	return append(b, `]}}`...)
}
