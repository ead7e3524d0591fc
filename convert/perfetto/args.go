package perfetto

import (
	"encoding/base64"

	"github.com/entrace-go/entrace/format"
	"github.com/entrace-go/entrace/internal/otel"
	"github.com/entrace-go/entrace/internal/read/timeline"
)

// appendArgs appends what an event says besides its name, as debug annotations.
func (e *encoder) appendArgs(b []byte, d *timeline.Details) []byte {
	for i := range d.Args {
		a := &d.Args[i]
		var at int
		b, at = open(b, eventArg)
		b = e.appendName(b, a.Name)
		if a.Encoding == otel.Native {
			b = appendValue(b, a.Value)
		} else {
			v := a.Any()
			b = e.appendAny(b, &v)
		}
		b = end(b, at)
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

// appendValue appends a value with its type. Numbers beyond 63 bits are texts: what
// reads them knows no others.
func appendValue(b []byte, v format.Value) []byte {
	switch v.Kind() {
	case format.KindString:
		return appendText(b, argText, v.Text())
	case format.KindBytes:
		return appendText(b, argText, base64.StdEncoding.EncodeToString(v.Bytes()))
	case format.KindBool:
		return appendBool(b, v.Bool())
	case format.KindFloat:
		return appendDouble(b, argDouble, v.Float())
	}
	if n, ok := v.I64(); ok {
		return appendUint(b, argInt, uint64(n))
	}
	return appendText(b, argText, string(v.AppendDecimal(nil)))
}

func appendBool(b []byte, value bool) []byte {
	n := uint64(0)
	if value {
		n = 1
	}
	return appendUint(b, argBool, n)
}

// appendAny appends a list or map, or what is in one. Those that are read here are
// not nested deeper than package telemetry reads them. What is empty has no form of
// its own and becomes a text.
func (e *encoder) appendAny(b []byte, v *otel.Any) []byte {
	switch v.Kind {
	case otel.String:
		return appendText(b, argText, v.Text)
	case otel.Bool:
		return appendBool(b, v.Bool)
	case otel.Int:
		return appendUint(b, argInt, uint64(v.Int))
	case otel.Float:
		return appendDouble(b, argDouble, v.Float)
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
