package codec

import (
	"google.golang.org/protobuf/encoding/protowire"

	"github.com/entrace-go/entrace/internal/otel"
)

// An Encoding is one of the two encodings of OTLP.
type Encoding uint8

// The encodings.
const (
	JSON Encoding = iota
	Protobuf
)

// A Signal is the kind of the records in a message.
type Signal uint8

// The signals.
const (
	Spans Signal = iota
	Logs
)

// A Group holds the records of one resource in a message, by scope.
type Group struct {
	Resource *otel.Resource
	Scopes   []*ScopeGroup
}

// A ScopeGroup holds the records of one resource and scope.
type ScopeGroup struct {
	Scope   otel.Scope
	Records []byte // appended by AppendSpan and EndSpan, or by AppendLog
}

// AppendSpan begins a span in records. The caller then appends the links and events, and calls EndSpan.
func (e Encoding) AppendSpan(records []byte, s *otel.Span) []byte {
	return spanMessage.write(beginRecord(records, e), e, s)
}

// EndSpan ends a span. The parameter from is the length of records before AppendSpan.
func (e Encoding) EndSpan(records []byte, from int) []byte {
	return endItem(records, e, &signals[Spans].scope[fieldItems], from)
}

// AppendLog appends a log record to records.
func (e Encoding) AppendLog(records []byte, l *otel.Log) []byte {
	from := len(records)
	return endItem(logMessage.write(beginRecord(records, e), e, l), e, &signals[Logs].scope[fieldItems], from)
}

// AppendLink appends a link to the span that was begun. If first is set, it is the first link of the span.
func (e Encoding) AppendLink(records []byte, l *otel.Link, first bool) []byte {
	return appendItem(records, e, &spanMessage.names[spanMessage.names.key("links", 0)], linkMessage, l, first)
}

// AppendEvent is like AppendLink, for an event.
func (e Encoding) AppendEvent(records []byte, ev *otel.Event, first bool) []byte {
	return appendItem(records, e, &spanMessage.names[spanMessage.names.key("events", 0)], eventMessage, ev, first)
}

// EndList ends the list of links or of events. The caller calls it only for a list with items.
func (e Encoding) EndList(records []byte) []byte {
	if e == JSON {
		return append(records, ']')
	}
	return records
}

// AppendMessage appends a TracesData or LogsData.
func (e Encoding) AppendMessage(b []byte, signal Signal, groups []Group) []byte {
	s := &signals[signal]
	data, head, items, url := &s.data[0], &s.holder[fieldHead], &s.holder[fieldItems], &s.holder[fieldURL]
	scope, records := &s.scope[fieldHead], &s.scope[fieldItems]
	if e == JSON {
		b = append(data.json(append(b, '{')), '[')
	}
	for i := range groups {
		g := &groups[i]
		from := len(b)
		b = appendMessage(beginItem(b, e), e, head, resourceMessage, g.Resource)
		if e == JSON {
			b = append(items.json(b), '[')
		}
		for _, sg := range g.Scopes {
			from := len(b)
			b = appendMessage(beginItem(b, e), e, scope, scopeMessage, &sg.Scope)
			if e == JSON {
				b = append(append(append(records.json(b), '['), sg.Records...), ']')
			} else {
				b = append(b, sg.Records...)
			}
			b = endItem(appendText(b, e, url, sg.Scope.SchemaURL), e, items, from)
		}
		if e == JSON {
			b = append(b, ']')
		}
		b = endItem(appendText(b, e, url, g.Resource.SchemaURL), e, data, from)
	}
	if e == JSON {
		b = append(b, "]}"...)
	}
	return b
}

func beginRecord(b []byte, e Encoding) []byte {
	if e == JSON && len(b) > 0 {
		b = append(b, ',')
	}
	if e == JSON {
		b = append(b, '{')
	}
	return b
}

// beginItem begins a message that is an item of a list.
func beginItem(b []byte, e Encoding) []byte {
	if e == JSON {
		return append(appendComma(b), '{')
	}
	return b
}

// endItem ends a message that is an item of a list. The parameter from is the length of b after beginItem.
func endItem(b []byte, e Encoding, n *fieldName, from int) []byte {
	if e == JSON {
		return append(b, '}')
	}
	return endMessage(b, from, n)
}

// appendItem appends the message v to a list. If first is set, appendItem begins the list.
func appendItem[T any](b []byte, e Encoding, n *fieldName, m *message[T], v *T, first bool) []byte {
	if e == JSON && first {
		b = append(n.json(b), '[')
	}
	from := len(b)
	return endItem(m.write(beginItem(b, e), e, v), e, n, from)
}

// appendMessage appends a field that is a message.
func appendMessage[T any](b []byte, e Encoding, n *fieldName, m *message[T], v *T) []byte {
	if e == JSON {
		return append(m.write(append(n.json(b), '{'), e, v), '}')
	}
	from := len(b)
	return endMessage(m.write(b, e, v), from, n)
}

// appendComma appends a comma if the current object or array already has content.
func appendComma(b []byte) []byte {
	if last := b[len(b)-1]; last == '{' || last == '[' {
		return b
	}
	return append(b, ',')
}

// endMessage makes a protobuf field of the bytes in b[from:]. It inserts a tag and a length before them.
func endMessage(b []byte, from int, n *fieldName) []byte {
	size := len(b) - from
	var head [2 * 10]byte
	h := protowire.AppendVarint(n.tag(head[:0], protowire.BytesType), uint64(size))
	b = append(b, h...)
	copy(b[from+len(h):], b[from:from+size])
	copy(b[from:], h)
	return b
}
