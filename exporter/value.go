package exporter

import (
	"go.opentelemetry.io/otel/attribute"

	"github.com/entrace-go/entrace/format"
	"github.com/entrace-go/entrace/internal/otel"
)

// attributes are those of the SDK, as otel.Users.
type attributes []attribute.KeyValue

// Len implements otel.Users.
func (a *attributes) Len() int { return len(*a) }

// Name implements otel.Users.
func (a *attributes) Name(i int) string { return string((*a)[i].Key) }

// Native implements otel.Users.
func (a *attributes) Native(i int) (format.Value, bool) { return native(&(*a)[i].Value) }

// Write implements otel.Users.
func (a *attributes) Write(w otel.Writer, prefix string) {
	for i := range *a {
		kv := &(*a)[i]
		name := string(kv.Key)
		if prefix != "" {
			name = prefix + name
		}
		switch v := &kv.Value; v.Type() {
		case attribute.STRING:
			w.String(name, v.AsString())
		case attribute.INT64:
			w.I64(name, v.AsInt64())
		case attribute.BOOL:
			w.Bool(name, v.AsBool())
		case attribute.FLOAT64:
			w.Float(name, v.AsFloat64())
		case attribute.BYTESLICE:
			w.Bytes(name, v.AsByteSlice())
		default:
			neutral := toAny(*v)
			a := otel.NewAttribute(name, &neutral)
			a.Write(w)
		}
	}
}

// neutral returns the attributes in the terms of package otel.
func (a *attributes) neutral() otel.Attributes {
	list := make(otel.Attributes, len(*a))
	for i, kv := range *a {
		v := toAny(kv.Value)
		list[i] = otel.NewAttribute(string(kv.Key), &v)
	}
	return list
}

// native returns what v is stored as, if that is of a kind of the format's own.
func native(v *attribute.Value) (format.Value, bool) {
	switch v.Type() {
	case attribute.BOOL:
		return format.BoolValue(v.AsBool()), true
	case attribute.INT64:
		return format.I64Value(v.AsInt64()), true
	case attribute.FLOAT64:
		return format.FloatValue(v.AsFloat64()), true
	case attribute.STRING:
		return format.StringValue(v.AsString()), true
	case attribute.BYTESLICE:
		return format.BytesValue(v.AsByteSlice()), true
	}
	return format.Value{}, false
}

// toAny returns v in the terms of package otel.
func toAny(v attribute.Value) otel.Any {
	switch v.Type() {
	case attribute.EMPTY:
		return otel.Any{}
	case attribute.BOOL:
		return otel.Any{Kind: otel.Bool, Bool: v.AsBool()}
	case attribute.INT64:
		return otel.Any{Kind: otel.Int, Int: v.AsInt64()}
	case attribute.FLOAT64:
		return otel.Any{Kind: otel.Float, Float: v.AsFloat64()}
	case attribute.STRING:
		return otel.Any{Kind: otel.String, Text: v.AsString()}
	case attribute.BYTESLICE:
		return otel.Any{Kind: otel.Bytes, Text: string(v.AsByteSlice())}
	case attribute.BOOLSLICE:
		return toList(v.AsBoolSlice(), attribute.BoolValue)
	case attribute.INT64SLICE:
		return toList(v.AsInt64Slice(), attribute.Int64Value)
	case attribute.FLOAT64SLICE:
		return toList(v.AsFloat64Slice(), attribute.Float64Value)
	case attribute.STRINGSLICE:
		return toList(v.AsStringSlice(), attribute.StringValue)
	case attribute.SLICE:
		return toList(v.AsSlice(), func(v attribute.Value) attribute.Value { return v })
	case attribute.MAP:
		m := otel.Any{Kind: otel.Map}
		for _, kv := range v.AsMap() {
			m.Map = append(m.Map, otel.KeyValue{Key: string(kv.Key), Value: toAny(kv.Value)})
		}
		return m
	}
	return otel.Any{Kind: otel.String, Text: v.String()} // a kind that came later
}

func toList[T any](items []T, value func(T) attribute.Value) otel.Any {
	list := otel.Any{Kind: otel.List, List: make([]otel.Any, len(items))}
	for i, x := range items {
		list.List[i] = toAny(value(x))
	}
	return list
}
