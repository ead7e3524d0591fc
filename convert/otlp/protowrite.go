package otlp

import (
	"encoding/binary"
	"math"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/entrace-go/entrace/internal/otel"
)

// A protoEncoding writes messages of protobuf, each behind its size. Fields that
// have their default are left out.
type protoEncoding struct{}

func (protoEncoding) span(b []byte, s *otel.Span) []byte {
	b = appendID(b, spanTraceID, s.TraceID[:])
	b = appendID(b, spanSpanID, s.SpanID[:])
	b = appendText(b, spanTraceState, s.TraceState)
	b = appendID(b, spanParentSpanID, s.Parent[:])
	b = appendText(b, spanName, s.Name)
	b = appendVarint(b, spanKindField, uint64(s.Kind))
	b = appendFixed64(b, spanStart, uint64(s.Start))
	if s.Ended {
		b = appendFixed64(b, spanEnd, uint64(s.End()))
	}
	b = appendAttributes(b, spanAttributes, s.Attributes)
	b = appendVarint(b, spanDropped, uint64(s.DroppedAttributes))
	b = appendVarint(b, spanDropEvents, uint64(s.DroppedEvents))
	b = appendVarint(b, spanDropLinks, uint64(s.DroppedLinks))
	from := len(b)
	b = appendText(b, statusMessage, s.Description)
	b = appendVarint(b, statusCode, uint64(s.Status))
	b = endMessage(b, from, spanStatus)
	return appendFixed32(b, spanFlags, s.Flags)
}

func (protoEncoding) link(b []byte, l *otel.Link, _ bool) []byte {
	from := len(b)
	b = appendID(b, linkTraceID, l.TraceID[:])
	b = appendID(b, linkSpanID, l.SpanID[:])
	b = appendText(b, linkTraceState, l.TraceState)
	b = appendAttributes(b, linkAttributes, l.Attributes)
	b = appendVarint(b, linkDropped, uint64(l.Dropped))
	b = appendFixed32(b, linkFlags, l.Flags)
	return endMessage(b, from, spanLinks)
}

func (protoEncoding) endLinks(b []byte) []byte { return b }

func (protoEncoding) event(b []byte, ev *otel.Event, _ bool) []byte {
	from := len(b)
	b = appendFixed64(b, eventTime, uint64(ev.Time))
	b = appendText(b, eventName, ev.Name)
	b = appendAttributes(b, eventAttributes, ev.Attributes)
	b = appendVarint(b, eventDropped, uint64(ev.Dropped))
	return endMessage(b, from, spanEvents)
}

func (protoEncoding) endEvents(b []byte) []byte { return b }

func (protoEncoding) endSpan(b []byte, from int) []byte { return endMessage(b, from, fieldItems) }

func (protoEncoding) log(b []byte, l *otel.Log) []byte {
	from := len(b)
	b = appendFixed64(b, logTime, uint64(l.Time))
	b = appendVarint(b, logSeverity, uint64(int64(int32(l.Severity))))
	b = appendText(b, logSeverityText, l.SeverityText)
	if l.Body.Kind != otel.Empty {
		at := len(b)
		b = endMessage(appendAny(b, &l.Body), at, logBody)
	}
	b = appendAttributes(b, logAttributes, l.Attributes)
	b = appendVarint(b, logDropped, uint64(l.Dropped))
	b = appendFixed32(b, logFlags, l.Flags)
	b = appendID(b, logTraceID, l.TraceID[:])
	b = appendID(b, logSpanID, l.SpanID[:])
	b = appendFixed64(b, logObserved, uint64(l.Observed))
	b = appendText(b, logEventName, l.EventName)
	return endMessage(b, from, fieldItems)
}

func (protoEncoding) message(b []byte, batch *batch, _ bool) []byte {
	begin := len(b)
	b = append(b, 0, 0, 0, 0)
	for i := range batch.resources {
		r := &batch.resources[i]
		from := len(b)
		b = appendAttributes(b, resourceAttributes, r.resource.Attributes)
		b = appendVarint(b, resourceDropped, uint64(r.resource.Dropped))
		b = endMessage(b, from, fieldHead)
		for _, s := range r.scopes {
			at := len(b)
			b = appendText(b, scopeName, s.scope.Name)
			b = appendText(b, scopeVersion, s.scope.Version)
			b = appendAttributes(b, scopeAttributes, s.scope.Attributes)
			b = appendVarint(b, scopeDropped, uint64(s.scope.Dropped))
			b = endMessage(b, at, fieldHead)
			b = append(b, s.records...)
			b = appendText(b, fieldSchemaURL, s.scope.SchemaURL)
			b = endMessage(b, at, fieldItems)
		}
		b = appendText(b, fieldSchemaURL, r.resource.SchemaURL)
		b = endMessage(b, from, fieldResources)
	}
	binary.BigEndian.PutUint32(b[begin:], uint32(len(b)-begin-sizeSize))
	return b
}

// endMessage makes what was appended since from a field: its tag and its length go
// before it.
func endMessage(b []byte, from int, number protowire.Number) []byte {
	n := len(b) - from
	var head [2 * 10]byte
	h := protowire.AppendTag(head[:0], number, protowire.BytesType)
	h = protowire.AppendVarint(h, uint64(n))
	b = append(b, h...)
	copy(b[from+len(h):], b[from:from+n])
	copy(b[from:], h)
	return b
}

func appendText(b []byte, number protowire.Number, s string) []byte {
	if s == "" {
		return b
	}
	return protowire.AppendString(protowire.AppendTag(b, number, protowire.BytesType), s)
}

// appendID appends an id, an empty one too: other writers do, and it tells spans
// from log records.
func appendID(b []byte, number protowire.Number, id []byte) []byte {
	b = protowire.AppendTag(b, number, protowire.BytesType)
	for _, c := range id {
		if c != 0 {
			return protowire.AppendBytes(b, id)
		}
	}
	return append(b, 0)
}

func appendVarint(b []byte, number protowire.Number, n uint64) []byte {
	if n == 0 {
		return b
	}
	return protowire.AppendVarint(protowire.AppendTag(b, number, protowire.VarintType), n)
}

func appendFixed64(b []byte, number protowire.Number, n uint64) []byte {
	if n == 0 {
		return b
	}
	return protowire.AppendFixed64(protowire.AppendTag(b, number, protowire.Fixed64Type), n)
}

func appendFixed32(b []byte, number protowire.Number, n uint32) []byte {
	if n == 0 {
		return b
	}
	return protowire.AppendFixed32(protowire.AppendTag(b, number, protowire.Fixed32Type), n)
}

func appendAttributes(b []byte, number protowire.Number, attrs []otel.Attribute) []byte {
	for i := range attrs {
		from := len(b)
		b = appendText(b, pairKey, attrs[i].Name)
		at := len(b)
		v := attrs[i].Any()
		b = endMessage(appendAny(b, &v), at, pairValue)
		b = endMessage(b, from, number)
	}
	return b
}

// appendAny appends the fields of an AnyValue.
func appendAny(b []byte, v *otel.Any) []byte {
	switch v.Kind {
	case otel.String:
		b = protowire.AppendString(protowire.AppendTag(b, anyString, protowire.BytesType), v.Text)
	case otel.Bool:
		b = protowire.AppendVarint(protowire.AppendTag(b, anyBool, protowire.VarintType), protowire.EncodeBool(v.Bool))
	case otel.Int:
		b = protowire.AppendVarint(protowire.AppendTag(b, anyInt, protowire.VarintType), uint64(v.Int))
	case otel.Float:
		b = protowire.AppendFixed64(protowire.AppendTag(b, anyDouble, protowire.Fixed64Type), math.Float64bits(v.Float))
	case otel.Bytes:
		b = protowire.AppendString(protowire.AppendTag(b, anyBytes, protowire.BytesType), v.Text)
	case otel.List:
		from := len(b)
		for i := range v.List {
			at := len(b)
			b = endMessage(appendAny(b, &v.List[i]), at, listValues)
		}
		b = endMessage(b, from, anyArray)
	case otel.Map:
		from := len(b)
		for i := range v.Map {
			at := len(b)
			b = appendText(b, pairKey, v.Map[i].Key)
			value := len(b)
			b = endMessage(appendAny(b, &v.Map[i].Value), value, pairValue)
			b = endMessage(b, at, listValues)
		}
		b = endMessage(b, from, anyMap)
	case otel.Empty:
	}
	return b
}
