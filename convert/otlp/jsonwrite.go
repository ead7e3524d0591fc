package otlp

import (
	"encoding/base64"
	"math"
	"strconv"

	"github.com/entrace-go/entrace/format"
	"github.com/entrace-go/entrace/internal/jsontext"
	"github.com/entrace-go/entrace/internal/otel"
	"github.com/entrace-go/entrace/internal/wire"
)

// A jsonEncoding writes OTLP JSON, a message a line. Fields that have their default
// are left out.
type jsonEncoding struct{}

func (jsonEncoding) span(b []byte, s *otel.Span) []byte {
	if len(b) > 0 {
		b = append(b, ',')
	}
	b = appendIDField(append(b, '{'), `"traceId":"`, s.TraceID[:])
	b = appendIDField(b, `"spanId":"`, s.SpanID[:])
	b = appendTextField(b, `"traceState":`, s.TraceState)
	b = appendIDField(b, `"parentSpanId":"`, s.Parent[:])
	b = appendCountField(b, `"flags":`, s.Flags)
	b = appendTextField(b, `"name":`, s.Name)
	b = appendCountField(b, `"kind":`, uint32(s.Kind))
	b = appendTimeField(b, `"startTimeUnixNano":"`, s.Start)
	if s.Ended {
		b = appendTimeField(b, `"endTimeUnixNano":"`, s.End())
	}
	b = appendAttributesField(b, s.Attributes)
	b = appendCountField(b, `"droppedAttributesCount":`, s.DroppedAttributes)
	b = appendCountField(b, `"droppedEventsCount":`, s.DroppedEvents)
	b = appendCountField(b, `"droppedLinksCount":`, s.DroppedLinks)
	b = append(appendComma(b), `"status":{`...)
	b = appendTextField(b, `"message":`, s.Description)
	b = appendCountField(b, `"code":`, uint32(s.Status))
	return append(b, '}')
}

func (jsonEncoding) link(b []byte, l *otel.Link, first bool) []byte {
	if first {
		b = append(b, `,"links":[{`...)
	} else {
		b = append(b, `,{`...)
	}
	b = appendIDField(b, `"traceId":"`, l.TraceID[:])
	b = appendIDField(b, `"spanId":"`, l.SpanID[:])
	b = appendTextField(b, `"traceState":`, l.TraceState)
	b = appendAttributesField(b, l.Attributes)
	b = appendCountField(b, `"droppedAttributesCount":`, l.Dropped)
	b = appendCountField(b, `"flags":`, l.Flags)
	return append(b, '}')
}

func (jsonEncoding) endLinks(b []byte) []byte { return append(b, ']') }

func (jsonEncoding) event(b []byte, ev *otel.Event, first bool) []byte {
	if first {
		b = append(b, `,"events":[{`...)
	} else {
		b = append(b, `,{`...)
	}
	b = appendTimeField(b, `"timeUnixNano":"`, ev.Time)
	b = appendTextField(b, `"name":`, ev.Name)
	b = appendAttributesField(b, ev.Attributes)
	b = appendCountField(b, `"droppedAttributesCount":`, ev.Dropped)
	return append(b, '}')
}

func (jsonEncoding) endEvents(b []byte) []byte { return append(b, ']') }

func (jsonEncoding) endSpan(b []byte, _ int) []byte { return append(b, '}') }

func (jsonEncoding) log(b []byte, l *otel.Log) []byte {
	if len(b) > 0 {
		b = append(b, ',')
	}
	b = appendTimeField(append(b, '{'), `"timeUnixNano":"`, l.Time)
	b = appendTimeField(b, `"observedTimeUnixNano":"`, l.Observed)
	if l.Severity != 0 {
		b = strconv.AppendInt(append(appendComma(b), `"severityNumber":`...), int64(int32(l.Severity)), 10)
	}
	b = appendTextField(b, `"severityText":`, l.SeverityText)
	if l.Body.Kind != otel.Empty {
		b = otel.AppendAnyValue(append(appendComma(b), `"body":`...), &l.Body)
	}
	b = appendAttributesField(b, l.Attributes)
	b = appendCountField(b, `"droppedAttributesCount":`, l.Dropped)
	b = appendCountField(b, `"flags":`, l.Flags)
	b = appendIDField(b, `"traceId":"`, l.TraceID[:])
	b = appendIDField(b, `"spanId":"`, l.SpanID[:])
	b = appendTextField(b, `"eventName":`, l.EventName)
	return append(b, '}')
}

func (jsonEncoding) message(b []byte, batch *batch, logs bool) []byte {
	resources, scopes, records := `{"resourceSpans":[`, `"scopeSpans":[`, `"spans":[`
	if logs {
		resources, scopes, records = `{"resourceLogs":[`, `"scopeLogs":[`, `"logRecords":[`
	}
	b = append(b, resources...)
	for i := range batch.resources {
		r := &batch.resources[i]
		b = append(appendComma(b), `{"resource":{`...)
		b = appendAttributesField(b, r.resource.Attributes)
		b = appendCountField(b, `"droppedAttributesCount":`, r.resource.Dropped)
		b = append(append(b, `},`...), scopes...)
		for _, s := range r.scopes {
			b = append(appendComma(b), `{"scope":{`...)
			b = appendTextField(b, `"name":`, s.scope.Name)
			b = appendTextField(b, `"version":`, s.scope.Version)
			b = appendAttributesField(b, s.scope.Attributes)
			b = appendCountField(b, `"droppedAttributesCount":`, s.scope.Dropped)
			b = append(append(b, `},`...), records...)
			b = append(append(b, s.records...), ']')
			b = append(appendTextField(b, `"schemaUrl":`, s.scope.SchemaURL), '}')
		}
		b = append(b, ']')
		b = append(appendTextField(b, `"schemaUrl":`, r.resource.SchemaURL), '}')
	}
	return append(b, "]}\n"...)
}

// appendComma appends a comma unless an object or an array has just begun.
func appendComma(b []byte) []byte {
	if last := b[len(b)-1]; last == '{' || last == '[' {
		return b
	}
	return append(b, ',')
}

func appendTextField(b []byte, key, s string) []byte {
	if s == "" {
		return b
	}
	return jsontext.AppendSafeString(append(appendComma(b), key...), s)
}

func appendCountField(b []byte, key string, n uint32) []byte {
	if n == 0 {
		return b
	}
	return strconv.AppendUint(append(appendComma(b), key...), uint64(n), 10)
}

func appendTimeField(b []byte, key string, t int64) []byte {
	if t == 0 {
		return b
	}
	return append(strconv.AppendUint(append(appendComma(b), key...), uint64(t), 10), '"')
}

func appendIDField(b []byte, key string, id []byte) []byte {
	for _, c := range id {
		if c != 0 {
			return append(wire.AppendHex(append(appendComma(b), key...), id), '"')
		}
	}
	return b
}

func appendAttributesField(b []byte, attrs []otel.Attribute) []byte {
	if len(attrs) == 0 {
		return b
	}
	b = append(appendComma(b), `"attributes":[`...)
	for i := range attrs {
		if i > 0 {
			b = append(b, ',')
		}
		b = jsontext.AppendSafeString(append(b, `{"key":`...), attrs[i].Name)
		b = append(appendValue(append(b, `,"value":`...), &attrs[i]), '}')
	}
	return append(b, ']')
}

// appendValue appends the AnyValue of an attribute.
func appendValue(b []byte, a *otel.Attribute) []byte {
	if a.Encoding == otel.Native {
		switch a.Value.Kind() {
		case format.KindString:
			return append(jsontext.AppendSafeString(append(b, `{"stringValue":`...), a.Value.Text()), '}')
		case format.KindBytes:
			b = base64.StdEncoding.AppendEncode(append(b, `{"bytesValue":"`...), a.Value.Bytes())
			return append(b, `"}`...)
		case format.KindBool:
			return append(strconv.AppendBool(append(b, `{"boolValue":`...), a.Value.Bool()), '}')
		case format.KindFloat:
			f := a.Value.Float()
			b = append(b, `{"doubleValue":`...)
			if math.IsNaN(f) || math.IsInf(f, 0) {
				b = jsontext.AppendString(b, jsontext.FloatName(f))
			} else {
				b, _ = jsontext.AppendFloat(b, f)
			}
			return append(b, '}')
		case format.KindU64, format.KindI64, format.KindU128, format.KindI128:
			if n, ok := a.Value.I64(); ok {
				return append(strconv.AppendInt(append(b, `{"intValue":"`...), n, 10), `"}`...)
			}
		}
	}
	v := a.Any()
	return otel.AppendAnyValue(b, &v)
}
