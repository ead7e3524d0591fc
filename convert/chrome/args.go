package chrome

import (
	"encoding/base64"
	"slices"
	"strconv"

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
		v := a.Any()
		e.b = appendAny(e.b, &v)
	}
	if d.Links.Kind == otel.List {
		e.b = appendAny(append(e.b, `,"links":`...), &d.Links)
	}
	e.b = append(e.b, '}')
}

// argName returns the name of an argument. The Firefox Profiler expects an object of its own under the name "data".
// If "data" is something else, the profiler does not load the trace.
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

// maxExact is the largest integer for which float64 is exact. Readers of the format use float64.
const maxExact = 1 << 53

// appendAny appends a value as JSON. Package otel limits the nesting depth of values.
func appendAny(b []byte, v *otel.Any) []byte {
	switch v.Kind {
	case otel.String:
		return jsontext.AppendSafeString(b, v.Text)
	case otel.Bool:
		return strconv.AppendBool(b, v.Bool)
	case otel.Int:
		if v.Int >= -maxExact && v.Int <= maxExact {
			return strconv.AppendInt(b, v.Int, 10)
		}
		return append(strconv.AppendInt(append(b, '"'), v.Int, 10), '"')
	case otel.Float:
		return jsontext.AppendNumber(b, v.Float)
	case otel.Bytes:
		return append(base64.StdEncoding.AppendEncode(append(b, '"'), []byte(v.Text)), '"')
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
