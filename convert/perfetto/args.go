package perfetto

import (
	"encoding/base64"
	"math"

	"github.com/entrace-go/entrace/internal/otel"
	"github.com/entrace-go/entrace/internal/read/timeline"
)

// appendArgs appends the details of an event except its name, as debug annotations.
func (e *encoder) appendArgs(b []byte, d *timeline.Details) []byte {
	for i := range d.Args {
		a := &d.Args[i]
		var at int
		b, at = open(b, eventArg)
		b = e.appendName(b, a.Name)
		v := a.Any()
		b = end(e.appendAny(b, &v), at)
	}
	if d.Links.Kind == otel.List {
		var at int
		b, at = open(b, eventArg)
		b = end(e.appendAny(e.appendName(b, "links"), &d.Links), at)
	}
	return b
}

func (e *encoder) appendName(b []byte, name string) []byte {
	if id := e.args.id(name); id != 0 {
		return appendUint(b, argNameID, id)
	}
	return appendText(b, argName, name)
}

// appendAny appends a value with its type. Empty values and numbers beyond 63 bits become texts, because readers
// have no form for them. Package otel limits the nesting depth of values that it reads.
func (e *encoder) appendAny(b []byte, v *otel.Any) []byte {
	switch v.Kind {
	case otel.String:
		return appendText(b, argText, v.Text)
	case otel.Bool:
		if v.Bool {
			return appendUint(b, argBool, 1)
		}
		return appendUint(b, argBool, 0)
	case otel.Int:
		return appendUint(b, argInt, uint64(v.Int))
	case otel.Float:
		return appendFixed(b, argDouble, math.Float64bits(v.Float))
	case otel.Bytes:
		return appendText(b, argText, base64.StdEncoding.EncodeToString([]byte(v.Text)))
	case otel.List:
		for i := range v.List {
			var at int
			b, at = open(b, argArray)
			b = end(e.appendAny(b, &v.List[i]), at)
		}
		if len(v.List) == 0 {
			return appendText(b, argText, "[]")
		}
		return b
	case otel.Map:
		for i := range v.Map {
			var at int
			b, at = open(b, argDict)
			b = e.appendName(b, v.Map[i].Key)
			b = end(e.appendAny(b, &v.Map[i].Value), at)
		}
		if len(v.Map) == 0 {
			return appendText(b, argText, "{}")
		}
		return b
	}
	return appendText(b, argText, "null")
}
