package collector_test

import (
	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/plog"
	"go.opentelemetry.io/collector/pdata/ptrace"

	"github.com/entrace-go/entrace/internal/otel"
)

// resourceOf converts a resource. OTLP stores the schema URL outside of the resource.
func resourceOf(from pcommon.Resource, schemaURL string) otel.Resource {
	return otel.Resource{Attributes: attributesOf(from.Attributes()), SchemaURL: schemaURL, Dropped: from.DroppedAttributesCount()}
}

// scopeOf converts an instrumentation scope. OTLP stores the schema URL outside of the scope.
func scopeOf(from pcommon.InstrumentationScope, schemaURL string) otel.Scope {
	return otel.Scope{
		Name: from.Name(), Version: from.Version(), SchemaURL: schemaURL, Attributes: attributesOf(from.Attributes()), Dropped: from.DroppedAttributesCount(),
	}
}

// spanOf converts a span with its links and events, without its scope.
func spanOf(from ptrace.Span) otel.Span {
	to := otel.Span{
		Name: from.Name(), TraceID: from.TraceID(), SpanID: from.SpanID(), Parent: from.ParentSpanID(),
		TraceState: from.TraceState().AsRaw(), Flags: from.Flags(), Kind: otel.SpanKindOf(int32(from.Kind())),
		Status: otel.StatusOf(int32(from.Status().Code())), Description: from.Status().Message(), Attributes: attributesOf(from.Attributes()),
		DroppedAttributes: from.DroppedAttributesCount(), DroppedEvents: from.DroppedEventsCount(), DroppedLinks: from.DroppedLinksCount(),
	}
	to.SetTimes(uint64(from.StartTimestamp()), uint64(from.EndTimestamp()))
	for _, link := range from.Links().All() {
		to.Links = append(to.Links, otel.Link{
			TraceID: link.TraceID(), SpanID: link.SpanID(), TraceState: link.TraceState().AsRaw(), Flags: link.Flags(),
			Attributes: attributesOf(link.Attributes()), Dropped: link.DroppedAttributesCount(),
		})
	}
	for _, event := range from.Events().All() {
		to.Events = append(to.Events, otel.Event{
			Name: event.Name(), Time: int64(event.Timestamp()), HasTime: event.Timestamp() != 0,
			Attributes: attributesOf(event.Attributes()), Dropped: event.DroppedAttributesCount(),
		})
	}
	to.TakeMarks()
	return to
}

// logOf converts a log record without its scope.
func logOf(from plog.LogRecord) otel.Log {
	to := otel.Log{
		Time: int64(from.Timestamp()), HasTime: from.Timestamp() != 0, Observed: int64(from.ObservedTimestamp()),
		Severity: uint32(from.SeverityNumber()), SeverityText: from.SeverityText(), EventName: from.EventName(),
		TraceID: from.TraceID(), SpanID: from.SpanID(), Flags: uint32(from.Flags()),
		Body: anyOf(from.Body()), Attributes: attributesOf(from.Attributes()), Dropped: from.DroppedAttributesCount(),
	}
	to.TakeMarks()
	return to
}

func attributesOf(from pcommon.Map) (to otel.Attributes) {
	for name, value := range from.All() {
		v := anyOf(value)
		to = append(to, otel.NewAttribute(name, &v))
	}
	to.Unify()
	return to
}

func anyOf(from pcommon.Value) (to otel.Any) {
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
		to.Kind = otel.List
		for _, item := range from.Slice().All() {
			to.List = append(to.List, anyOf(item))
		}
	case pcommon.ValueTypeMap:
		to.Kind = otel.Map
		for key, value := range from.Map().All() {
			to.Map = append(to.Map, otel.KeyValue{Key: key, Value: anyOf(value)})
		}
	}
	return to
}
