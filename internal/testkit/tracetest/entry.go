package tracetest

import (
	"fmt"
	"slices"
	"time"

	"github.com/entrace-go/entrace/format"
)

// Attributes returns attributes for pairs of a name and a value. An int becomes an I64.
func Attributes(pairs ...any) []format.Attribute {
	var all []format.Attribute
	for pair := range slices.Chunk(pairs, 2) {
		all = append(all, format.Attribute{Name: pair[0].(string), Value: value(pair[1])}) //nolint:forcetypeassert // a test with another type panics
	}
	return all
}

func value(v any) format.Value {
	switch v := v.(type) {
	case format.Value:
		return v
	case string:
		return format.StringValue(v)
	case []byte:
		return format.BytesValue(v)
	case bool:
		return format.BoolValue(v)
	case float64:
		return format.FloatValue(v)
	case uint64:
		return format.U64Value(v)
	case int64:
		return format.I64Value(v)
	case int:
		return format.I64Value(int64(v))
	case time.Time:
		return format.TimeValue(v)
	}
	panic(fmt.Sprintf("an attribute cannot have a %T", v))
}

// Entry returns an entry with attributes for pairs of a name and a value.
func Entry(name string, pairs ...any) *format.TraceEntry {
	return &format.TraceEntry{Metadata: format.Metadata{Name: name}, Attributes: Attributes(pairs...)}
}

// Log returns the entry of a log record.
func Log(message string, pairs ...any) *format.TraceEntry {
	return withMessage(message, Entry("event", pairs...))
}

// Resource returns the entry of a resource.
func Resource(message string, pairs ...any) *format.TraceEntry {
	return withMessage(message, Entry(format.NameResource, pairs...))
}

func withMessage(message string, e *format.TraceEntry) *format.TraceEntry {
	e.Message = format.Some(message)
	return e
}

// Below sets the parent of e, and returns e.
func Below(parent uint32, e *format.TraceEntry) *format.TraceEntry {
	e.Parent = parent
	return e
}

// Of returns the entry of a span, link, event or log record of package otel. The parameter at is that of its method Fill.
func Of[T any](x interface {
	Fill(e *format.TraceEntry, at T)
}, at T,
) *format.TraceEntry {
	e := new(format.TraceEntry)
	x.Fill(e, at)
	return e
}
