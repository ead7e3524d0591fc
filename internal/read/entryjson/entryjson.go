// Package entryjson writes the entries of a trace as JSON.
package entryjson

import (
	"strconv"

	"github.com/entrace-go/entrace/format"
	"github.com/entrace-go/entrace/internal/core/wire"
	"github.com/entrace-go/entrace/internal/text/jsontext"
)

// Append appends entry e with the given id as one JSON object without a newline. The object always has this form:
//
//	{"id":4,"parent":3,"message":null,"name":"tick","target":"clock","level":"TRACE",
//	"module_path":null,"file":"main.rs","line":124,"attributes":[["tick",{"U64":0}]]}
//
// The attributes are in stored order. Each value is an object whose only key is the kind of the value. Bytes
// are hex digits. Floats have a point or an exponent. Floats that JSON cannot express are "NaN", "Infinity" and
// "-Infinity". Integers are numbers with full precision. Every character that could act on a terminal is
// escaped.
func Append(b []byte, id int64, e *format.TraceEntry) []byte {
	m := &e.Metadata
	b = strconv.AppendInt(append(b, `{"id":`...), id, 10)
	b = strconv.AppendUint(append(b, `,"parent":`...), uint64(e.Parent), 10)
	b = appendOptional(append(b, `,"message":`...), e.Message)
	b = jsontext.AppendSafeString(append(b, `,"name":`...), m.Name)
	b = jsontext.AppendSafeString(append(b, `,"target":`...), m.Target)
	b = jsontext.AppendSafeString(append(b, `,"level":`...), m.Level.String())
	b = appendOptional(append(b, `,"module_path":`...), m.ModulePath)
	b = appendOptional(append(b, `,"file":`...), m.File)
	b = append(b, `,"line":`...)
	if m.Line.Valid {
		b = strconv.AppendUint(b, uint64(m.Line.Value), 10)
	} else {
		b = append(b, "null"...)
	}
	b = append(b, `,"attributes":[`...)
	for i := range e.Attributes {
		if i > 0 {
			b = append(b, ',')
		}
		a := &e.Attributes[i]
		b = jsontext.AppendSafeString(append(b, '['), a.Name)
		b = append(append(append(b, `,{"`...), a.Value.Kind().String()...), `":`...)
		b = append(AppendValue(b, a.Value), "}]"...)
	}
	return append(b, `]}`...)
}

func appendOptional(b []byte, s format.Optional[string]) []byte {
	if !s.Valid {
		return append(b, "null"...)
	}
	return jsontext.AppendSafeString(b, s.Value)
}

// AppendValue appends a value without its kind, in the form that Append gives it.
func AppendValue(b []byte, v format.Value) []byte {
	switch v.Kind() {
	case format.KindString:
		return jsontext.AppendSafeString(b, v.Text())
	case format.KindBytes:
		return append(wire.AppendHex(append(b, '"'), v.Bytes()), '"')
	case format.KindBool:
		return strconv.AppendBool(b, v.Bool())
	case format.KindFloat:
		return jsontext.AppendNumber(b, v.Float())
	}
	return v.AppendDecimal(b)
}
