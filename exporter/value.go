package exporter

import (
	"go.opentelemetry.io/otel/attribute"

	"github.com/entrace-go/entrace/format"
	"github.com/entrace-go/entrace/internal/otel"
	"github.com/entrace-go/entrace/internal/write/setup"
)

// attributes are attributes of the SDK. They implement otel.Users.
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
			neutral := setup.Any(*v)
			a := otel.NewAttribute(name, &neutral)
			a.Write(w)
		}
	}
}

// native returns v as a value of the format. The bool is false if the format has no kind for v.
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
