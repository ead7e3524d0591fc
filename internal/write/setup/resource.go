package setup

import (
	"errors"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/sdk/resource"

	"github.com/entrace-go/entrace/internal/otel"
	"github.com/entrace-go/entrace/recorder"
)

// Resource returns the resource of this process. Attributes of r override attributes in the environment,
// and these override the SDK's defaults. r may be nil. Each call reads the environment. If it returns an
// error, the resource is usable nevertheless.
func Resource(r *resource.Resource) (*resource.Resource, error) {
	if r == nil {
		return resource.Merge(resource.Default(), resource.Environment())
	}
	// The defaults of the SDK have the environment as it was at their first use, so read it again.
	environment, err := resource.Merge(resource.Environment(), r)
	if environment == nil {
		environment = r
	}
	// Without the schema URL of the defaults, which may differ from that of r.
	full, merr := resource.Merge(resource.NewSchemaless(resource.Default().Attributes()...), environment)
	return full, errors.Join(err, merr)
}

// RecordResource records r as an entry, with those attributes in process that r does not have. Spans and log records
// of the process are written below this entry.
func RecordResource(rec *recorder.Recorder, r *resource.Resource, process []attribute.KeyValue) (*recorder.Resource, error) {
	all := r.Attributes()
	for _, kv := range process {
		if !r.Set().HasValue(kv.Key) {
			all = append(all, kv)
		}
	}
	return rec.Resource((&otel.Resource{Attributes: Attributes(all), SchemaURL: r.SchemaURL()}).Entry())
}

func serviceName(r *resource.Resource) string {
	if v, ok := r.Set().Value("service.name"); ok {
		return v.String()
	}
	return ""
}

// Attributes converts attributes of the SDK to attributes of package otel.
func Attributes(of []attribute.KeyValue) otel.Attributes {
	list := make(otel.Attributes, len(of))
	for i, kv := range of {
		v := Any(kv.Value)
		list[i] = otel.NewAttribute(string(kv.Key), &v)
	}
	return list
}

// Any converts v to a value of package otel.
func Any(v attribute.Value) otel.Any {
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
			m.Map = append(m.Map, otel.KeyValue{Key: string(kv.Key), Value: Any(kv.Value)})
		}
		return m
	}
	return otel.Any{Kind: otel.String, Text: v.String()} // a kind that a later version of the SDK may add
}

func toList[T any](items []T, value func(T) attribute.Value) otel.Any {
	list := otel.Any{Kind: otel.List, List: make([]otel.Any, len(items))}
	for i, x := range items {
		list.List[i] = Any(value(x))
	}
	return list
}
