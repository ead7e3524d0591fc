package chrome

import (
	"encoding/base64"
	"math"
	"slices"
	"strconv"

	"github.com/entrace-go/entrace/format"
	"github.com/entrace-go/entrace/internal/otel"
	"github.com/entrace-go/entrace/internal/read/timeline"
	"github.com/entrace-go/entrace/internal/text"
	"github.com/entrace-go/entrace/internal/text/jsontext"
)

// args writes the arguments of an event.
func (e *encoder) args(d *timeline.Details) {
	e.b = append(e.b, `,"args":{`...)
	for i := range d.Args {
		a := &d.Args[i]
		if i > 0 {
			e.b = append(e.b, ',')
		}
		e.b = append(jsontext.AppendSafeString(e.b, argName(d.Args, a.Name)), ':')
		if a.Encoding == otel.Native {
			e.b = appendValue(e.b, a.Value)
		} else {
			v := a.Any()
			e.b = appendAny(e.b, &v)
		}
	}
	if d.Links.Kind == otel.List {
		e.b = appendAny(append(e.b, `,"links":`...), &d.Links)
	}
	e.b = append(e.b, '}')
}

// argName returns the name of an argument. The Firefox Profiler uses "data" for its own object, and does
// not load a trace in which "data" is something else.
func argName(all []otel.Attribute, name string) string {
	if name != "data" {
		return name
	}
	name = "otel.attr.data"
	for slices.ContainsFunc(all, func(a otel.Attribute) bool { return a.Name == name }) {
		name += "#2"
	}
	return name
}

// appendValue appends a value as JSON of the matching type.
func appendValue(b []byte, v format.Value) []byte {
	switch v.Kind() {
	case format.KindString:
		return jsontext.AppendSafeString(b, v.Text())
	case format.KindBytes:
		return appendBytes(b, v.Bytes())
	case format.KindBool:
		return strconv.AppendBool(b, v.Bool())
	case format.KindFloat:
		return appendFloat(b, v.Float())
	}
	if n, ok := v.I64(); ok {
		return appendInt(b, n)
	}
	return append(v.AppendDecimal(append(b, '"')), '"')
}

// maxExact is the largest integer up to which a float64, which readers use, is exact.
const maxExact = 1 << 53

func appendInt(b []byte, n int64) []byte {
	if n >= -maxExact && n <= maxExact {
		return strconv.AppendInt(b, n, 10)
	}
	return append(strconv.AppendInt(append(b, '"'), n, 10), '"')
}

func appendFloat(b []byte, f float64) []byte {
	if math.IsNaN(f) || math.IsInf(f, 0) {
		return jsontext.AppendString(b, jsontext.FloatName(f))
	}
	b, _ = jsontext.AppendFloat(b, f)
	return b
}

func appendBytes(b, value []byte) []byte {
	return append(base64.StdEncoding.AppendEncode(append(b, '"'), value), '"')
}

// appendAny appends a list or map, or an item of one. Package telemetry bounds how deep they nest.
func appendAny(b []byte, v *otel.Any) []byte {
	switch v.Kind {
	case otel.String:
		return jsontext.AppendSafeString(b, v.Text)
	case otel.Bool:
		return strconv.AppendBool(b, v.Bool)
	case otel.Int:
		return appendInt(b, v.Int)
	case otel.Float:
		return appendFloat(b, v.Float)
	case otel.Bytes:
		return appendBytes(b, []byte(v.Text))
	case otel.List:
		b = append(b, '[')
		for i := range v.List {
			if i > 0 {
				b = append(b, ',')
			}
			b = appendAny(b, &v.List[i])
		}
		return append(b, ']')
	case otel.Map:
		b = append(b, '{')
		var keys text.Names // JSON keys must be unique
		for i := range v.Map {
			if i > 0 {
				b = append(b, ',')
			}
			b = append(jsontext.AppendSafeString(b, keys.Add(v.Map[i].Key)), ':')
			b = appendAny(b, &v.Map[i].Value)
		}
		return append(b, '}')
	}
	return append(b, "null"...)
}
