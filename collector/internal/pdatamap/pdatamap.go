// Package pdatamap converts the types of the OpenTelemetry Collector's pdata to those of package
// internal/otel. Its tests compare it with package internal/otel/codec, which reads the same data from
// bytes.
package pdatamap

import (
	"errors"

	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/plog"
	"go.opentelemetry.io/collector/pdata/ptrace"

	"github.com/entrace-go/entrace/internal/otel"
)

// maxDepth is how deep values may nest, because readers of a trace reject deeper ones.
const maxDepth = 64

// ErrTooDeep says that a value nests deeper than readers of a trace accept.
var ErrTooDeep = errors.New("values nest too deep")

// Resource converts a resource. In OTLP its schema URL is not part of it.
func Resource(from pcommon.Resource, schemaURL string, to *otel.Resource) (err error) {
	*to = otel.Resource{Attributes: to.Attributes, SchemaURL: otel.Clean(schemaURL), Dropped: from.DroppedAttributesCount()}
	to.Attributes, err = readAttributes(from.Attributes(), to.Attributes)
	return err
}

// Scope converts an instrumentation scope. In OTLP its schema URL is not part of it.
func Scope(from pcommon.InstrumentationScope, schemaURL string, to *otel.Scope) (err error) {
	*to = otel.Scope{
		Name: otel.Clean(from.Name()), Version: otel.Clean(from.Version()), SchemaURL: otel.Clean(schemaURL),
		Attributes: to.Attributes, Dropped: from.DroppedAttributesCount(),
	}
	to.Attributes, err = readAttributes(from.Attributes(), to.Attributes)
	return err
}

// Span converts a span with its links and events, without its scope.
func Span(from ptrace.Span, to *otel.Span) (err error) {
	*to = otel.Span{
		Name: otel.Clean(from.Name()), TraceID: from.TraceID(), SpanID: from.SpanID(), Parent: from.ParentSpanID(),
		TraceState: otel.Clean(from.TraceState().AsRaw()), Flags: from.Flags(), Kind: otel.SpanKindOf(int32(from.Kind())),
		Status: otel.StatusOf(int32(from.Status().Code())), Description: otel.Clean(from.Status().Message()),
		DroppedAttributes: from.DroppedAttributesCount(), DroppedEvents: from.DroppedEventsCount(),
		DroppedLinks: from.DroppedLinksCount(), Attributes: to.Attributes, Links: to.Links[:0], Events: to.Events[:0],
	}
	to.SetTimes(uint64(from.StartTimestamp()), uint64(from.EndTimestamp()))
	if to.Attributes, err = readAttributes(from.Attributes(), to.Attributes); err != nil {
		return err
	}
	for _, link := range from.Links().All() {
		var l *otel.Link
		to.Links, l = grow(to.Links)
		*l = otel.Link{
			TraceID: link.TraceID(), SpanID: link.SpanID(), TraceState: otel.Clean(link.TraceState().AsRaw()), Flags: link.Flags(),
			Attributes: l.Attributes, Dropped: link.DroppedAttributesCount(),
		}
		if l.Attributes, err = readAttributes(link.Attributes(), l.Attributes); err != nil {
			return err
		}
	}
	for _, event := range from.Events().All() {
		var ev *otel.Event
		to.Events, ev = grow(to.Events)
		*ev = otel.Event{
			Name: otel.Clean(event.Name()), Time: int64(event.Timestamp()), HasTime: event.Timestamp() != 0,
			Attributes: ev.Attributes, Dropped: event.DroppedAttributesCount(),
		}
		if ev.Attributes, err = readAttributes(event.Attributes(), ev.Attributes); err != nil {
			return err
		}
	}
	to.TakeMarks()
	return nil
}

// Log converts a log record without its scope.
func Log(from plog.LogRecord, to *otel.Log) (err error) {
	*to = otel.Log{
		Time: int64(from.Timestamp()), HasTime: from.Timestamp() != 0, Observed: int64(from.ObservedTimestamp()),
		Severity: uint32(from.SeverityNumber()), SeverityText: otel.Clean(from.SeverityText()), EventName: otel.Clean(from.EventName()),
		TraceID: from.TraceID(), SpanID: from.SpanID(), Flags: uint32(from.Flags()),
		Attributes: to.Attributes, Dropped: from.DroppedAttributesCount(),
	}
	if err = readAny(from.Body(), &to.Body, 0); err != nil {
		return err
	}
	if to.Body.Kind == otel.String {
		to.Body.Text = otel.Clean(to.Body.Text) // the body is the message
	}
	if to.Attributes, err = readAttributes(from.Attributes(), to.Attributes); err != nil {
		return err
	}
	to.TakeMarks()
	return nil
}

// grow appends an item to list. The item may still have the memory of an earlier record, for reuse.
func grow[T any](list []T) ([]T, *T) {
	if len(list) < cap(list) {
		list = list[:len(list)+1]
	} else {
		list = append(list, *new(T))
	}
	return list, &list[len(list)-1]
}

// readAttributes converts attributes. It reuses the memory of to.
func readAttributes(from pcommon.Map, to otel.Attributes) (otel.Attributes, error) {
	to = to[:0]
	for name, value := range from.All() {
		var v otel.Any
		if err := readAny(value, &v, 0); err != nil {
			return to, err
		}
		to = append(to, otel.NewAttribute(otel.Clean(name), &v))
	}
	to.Unify()
	return to, nil
}

func readAny(from pcommon.Value, to *otel.Any, depth int) error {
	if depth > maxDepth {
		return ErrTooDeep
	}
	switch from.Type() {
	case pcommon.ValueTypeStr:
		to.Kind, to.Text = otel.String, from.Str()
	case pcommon.ValueTypeBool:
		to.Kind, to.Bool = otel.Bool, from.Bool()
	case pcommon.ValueTypeInt:
		to.Kind, to.Int = otel.Int, from.Int()
	case pcommon.ValueTypeDouble:
		to.Kind, to.Float = otel.Float, from.Double()
	case pcommon.ValueTypeBytes:
		to.Kind, to.Text = otel.Bytes, string(from.Bytes().AsRaw())
	case pcommon.ValueTypeSlice:
		to.Kind, to.List = otel.List, make([]otel.Any, from.Slice().Len())
		for i, item := range from.Slice().All() {
			if err := readAny(item, &to.List[i], depth+1); err != nil {
				return err
			}
		}
	case pcommon.ValueTypeMap:
		to.Kind, to.Map = otel.Map, make([]otel.KeyValue, 0, from.Map().Len())
		for key, value := range from.Map().All() {
			to.Map = append(to.Map, otel.KeyValue{Key: otel.Clean(key)})
			if err := readAny(value, &to.Map[len(to.Map)-1].Value, depth+1); err != nil {
				return err
			}
		}
	}
	return nil
}
