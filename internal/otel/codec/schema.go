package codec

import (
	"strings"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/entrace-go/entrace/internal/otel"
)

// A fieldName holds the names of a field in the two encodings.
type fieldName struct {
	number protowire.Number
	key    string // in JSON
	snake  string // another JSON key for the same field
	begin  string // the field in JSON up to its value: the key in quotes, and a colon
}

func newName(number protowire.Number, key string) fieldName {
	var snake strings.Builder
	for _, c := range key {
		if c >= 'A' && c <= 'Z' {
			snake.WriteByte('_')
			c += 'a' - 'A'
		}
		snake.WriteRune(c)
	}
	return fieldName{number, key, snake.String(), `"` + key + `":`}
}

// fieldNames holds the names of the fields of a message. The other functions identify a field by its index.
type fieldNames []fieldName

// numbered returns fields with these keys. Their numbers are 1, 2 and so on.
func numbered(keys ...string) (n fieldNames) {
	for i, key := range keys {
		n = append(n, newName(protowire.Number(i+1), key))
	}
	return n
}

// key returns the index of the field with a JSON key, or a negative number if the key is unknown. It begins the
// search at next, because the field usually has the index next or a slightly larger index.
func (n fieldNames) key(key string, next int) int {
	for i := next; i < len(n); i++ {
		if n[i].key == key {
			return i
		}
	}
	if now, ok := formerKeys[key]; ok {
		key = now
	}
	for i := range n {
		if n[i].key == key || n[i].snake == key {
			return i
		}
	}
	return -1
}

// formerKeys maps the keys of OTLP before version 1.0, and a key of Tempo's API, to the current keys.
var formerKeys = map[string]string{
	"instrumentationLibrarySpans": "scopeSpans", "instrumentation_library_spans": "scopeSpans", "instrumentationLibraryLogs": "scopeLogs",
	"instrumentation_library_logs": "scopeLogs", "instrumentationLibrary": "scope", "instrumentation_library": "scope", "batches": "resourceSpans",
}

// number is like key, for a field number.
func (n fieldNames) number(number protowire.Number, next int) int {
	for i := max(next-1, 0); i < len(n); i++ { // begin at next-1, because a field may be repeated
		if n[i].number == number {
			return i
		}
	}
	for i := range n {
		if n[i].number == number {
			return i
		}
	}
	return -1
}

// A field is a field of a message. T is the type in which the message is stored.
type field[T any] struct {
	number protowire.Number
	key    string
	wire   protowire.Type
	read   func(r *Reader, to *T)
	write  func(b []byte, e Encoding, n *fieldName, from *T) []byte // appends the field if it does not have its default value
}

// A message holds the fields of a message, in the order in which they are written.
type message[T any] struct {
	names  fieldNames
	fields []field[T]
}

func newMessage[T any](fields ...field[T]) *message[T] {
	m := &message[T]{fields: fields}
	for _, f := range fields {
		m.names = append(m.names, newName(f.number, f.key))
	}
	return m
}

// has reports whether m has a field with that number and wire type.
func (m *message[T]) has(number protowire.Number, t protowire.Type) bool {
	i := m.names.number(number, 0)
	return i >= 0 && m.fields[i].wire == t
}

// read reads a whole message.
func (m *message[T]) read(r *Reader, to *T) {
	f := r.in.enter(true)
	for i := r.in.field(m.names, 0); i >= 0; i = r.in.field(m.names, i+1) {
		m.fields[i].read(r, to)
	}
	r.in.leave(f)
}

// write appends the fields of a message.
func (m *message[T]) write(b []byte, e Encoding, from *T) []byte {
	for i := range m.fields {
		b = m.fields[i].write(b, e, &m.names[i], from)
	}
	return b
}

var spanMessage = newMessage(
	id(1, "traceId", func(s *otel.Span) []byte { return s.TraceID[:] }),
	id(2, "spanId", func(s *otel.Span) []byte { return s.SpanID[:] }),
	text(3, "traceState", func(s *otel.Span) *string { return &s.TraceState }),
	id(4, "parentSpanId", func(s *otel.Span) []byte { return s.Parent[:] }),
	flags(16, "flags", func(s *otel.Span) *uint32 { return &s.Flags }),
	text(5, "name", func(s *otel.Span) *string { return &s.Name }),
	enum(6, "kind",
		spanKinds, func(s *otel.Span) int32 { return int32(s.Kind) }, func(s *otel.Span, n int32) { s.Kind = otel.SpanKindOf(n) },
	),
	nano(7, "startTimeUnixNano",
		func(s *otel.Span) int64 { return s.Start }, func(s *otel.Span, n int64) { s.Start = n },
	),
	// While a span is read, Duration holds its end time.
	nano(8, "endTimeUnixNano", spanEnd, func(s *otel.Span, n int64) { s.Duration = n }),
	attributes(9, "attributes", func(s *otel.Span) *otel.Attributes { return &s.Attributes }),
	count(10, "droppedAttributesCount", func(s *otel.Span) *uint32 { return &s.DroppedAttributes }),
	count(12, "droppedEventsCount", func(s *otel.Span) *uint32 { return &s.DroppedEvents }),
	count(14, "droppedLinksCount", func(s *otel.Span) *uint32 { return &s.DroppedLinks }),
	part(15, "status", statusMessage),
	list(13, "links", linkMessage, func(s *otel.Span) *[]otel.Link { return &s.Links }, linkAttributes),
	list(11, "events", eventMessage, func(s *otel.Span) *[]otel.Event { return &s.Events }, eventAttributes),
)

var statusMessage = newMessage(
	text(2, "message", func(s *otel.Span) *string { return &s.Description }),
	enum(3, "code",
		statusCodes, func(s *otel.Span) int32 { return int32(s.Status) }, func(s *otel.Span, n int32) { s.Status = otel.StatusOf(n) },
	),
)

var linkMessage = newMessage(
	id(1, "traceId", func(l *otel.Link) []byte { return l.TraceID[:] }),
	id(2, "spanId", func(l *otel.Link) []byte { return l.SpanID[:] }),
	text(3, "traceState", func(l *otel.Link) *string { return &l.TraceState }),
	attributes(4, "attributes", linkAttributes),
	count(5, "droppedAttributesCount", func(l *otel.Link) *uint32 { return &l.Dropped }),
	flags(6, "flags", func(l *otel.Link) *uint32 { return &l.Flags }),
)

var eventMessage = newMessage(
	nano(1, "timeUnixNano",
		func(ev *otel.Event) int64 { return ev.Time },
		func(ev *otel.Event, n int64) { ev.Time, ev.HasTime = n, n != 0 },
	),
	text(2, "name", func(ev *otel.Event) *string { return &ev.Name }),
	attributes(3, "attributes", eventAttributes),
	count(4, "droppedAttributesCount", func(ev *otel.Event) *uint32 { return &ev.Dropped }),
)

var logMessage = newMessage(
	nano(1, "timeUnixNano",
		func(l *otel.Log) int64 { return l.Time },
		func(l *otel.Log, n int64) { l.Time, l.HasTime = n, n != 0 },
	),
	nano(11, "observedTimeUnixNano",
		func(l *otel.Log) int64 { return l.Observed }, func(l *otel.Log, n int64) { l.Observed = n },
	),
	enum(2, "severityNumber",
		severityNumbers, func(l *otel.Log) int32 { return int32(l.Severity) }, func(l *otel.Log, n int32) { l.Severity = uint32(n) },
	),
	text(3, "severityText", func(l *otel.Log) *string { return &l.SeverityText }),
	value(5, "body", func(l *otel.Log) *otel.Any { return &l.Body }),
	attributes(6, "attributes", func(l *otel.Log) *otel.Attributes { return &l.Attributes }),
	count(7, "droppedAttributesCount", func(l *otel.Log) *uint32 { return &l.Dropped }),
	flags(8, "flags", func(l *otel.Log) *uint32 { return &l.Flags }),
	id(9, "traceId", func(l *otel.Log) []byte { return l.TraceID[:] }),
	id(10, "spanId", func(l *otel.Log) []byte { return l.SpanID[:] }),
	text(12, "eventName", func(l *otel.Log) *string { return &l.EventName }),
)

var scopeMessage = newMessage(
	text(1, "name", func(s *otel.Scope) *string { return &s.Name }),
	text(2, "version", func(s *otel.Scope) *string { return &s.Version }),
	attributes(3, "attributes", func(s *otel.Scope) *otel.Attributes { return &s.Attributes }),
	count(4, "droppedAttributesCount", func(s *otel.Scope) *uint32 { return &s.Dropped }),
)

var resourceMessage = newMessage(
	attributes(1, "attributes", func(r *otel.Resource) *otel.Attributes { return &r.Attributes }),
	count(2, "droppedAttributesCount", func(r *otel.Resource) *uint32 { return &r.Dropped }),
)

// The indices of the fields of KeyValue. An index of a field of AnyValue is its kind in package otel minus one.
const (
	pairKey = iota
	pairValue
)

var (
	pairNames = numbered("key", "value")
	listNames = numbered("values") // for ArrayValue and KeyValueList
	anyNames  = fieldNames{
		otel.String - 1: newName(1, "stringValue"), otel.Bool - 1: newName(2, "boolValue"), otel.Int - 1: newName(3, "intValue"),
		otel.Float - 1: newName(4, "doubleValue"), otel.Bytes - 1: newName(7, "bytesValue"), otel.List - 1: newName(5, "arrayValue"),
		otel.Map - 1: newName(6, "kvlistValue"),
	}
)

// A signal holds the names of the fields that lead to the records of a signal.
type signal struct {
	data   fieldNames // TracesData or LogsData
	holder fieldNames // ResourceSpans or ResourceLogs
	scope  fieldNames // ScopeSpans or ScopeLogs
	ids    fieldNames // the ids in Span or LogRecord
}

// The indices in holder and scope.
const (
	fieldHead  = iota // the resource or the scope
	fieldItems        // the scopes of a resource, or the records of a scope
	fieldURL
)

// The indices in ids.
const (
	idTrace = iota
	idSpan
	idParent
)

var signals = [...]signal{
	Spans: {
		data:   numbered("resourceSpans"),
		holder: numbered("resource", "scopeSpans", "schemaUrl"),
		scope:  numbered("scope", "spans", "schemaUrl"),
		ids:    spanMessage.names.only("traceId", "spanId", "parentSpanId"),
	},
	Logs: {
		data:   numbered("resourceLogs"),
		holder: numbered("resource", "scopeLogs", "schemaUrl"),
		scope:  numbered("scope", "logRecords", "schemaUrl"),
		ids:    logMessage.names.only("traceId", "spanId"),
	},
}

// dataNames are the names of the top-level messages, by signal. Metrics are skipped. The other names exist only in
// JSON. The names from bare on belong to a ResourceSpans or ResourceLogs without a message around it, as
// OpenTelemetry's logging exporters for Java write it. The last three names belong to a message around the data, as
// the APIs of Tempo, Jaeger and Aspire write it.
var dataNames = fieldNames{
	Spans: signals[Spans].data[0], Logs: signals[Logs].data[0], metrics: newName(0, "resourceMetrics"),
	bare + Spans: newName(0, "scopeSpans"), bare + Logs: newName(0, "scopeLogs"), bare + metrics: newName(0, "scopeMetrics"),
	bareHead: newName(0, "resource"), bareURL: newName(0, "schemaUrl"),
	around: newName(0, "trace"), newName(0, "result"), newName(0, "data"),
}

const (
	metrics  = Logs + 1
	bare     = metrics + 1
	bareHead = bare + metrics + 1
	bareURL  = bareHead + 1
	around   = bareURL + 1
)

// only returns the names of the fields with these keys.
func (n fieldNames) only(keys ...string) (some fieldNames) {
	for _, key := range keys {
		some = append(some, n[n.key(key, 0)])
	}
	return some
}

// The names of enums, which JSON may have instead of numbers.
var (
	spanKinds = map[string]int32{
		"SPAN_KIND_UNSPECIFIED": 0, "SPAN_KIND_INTERNAL": 1, "SPAN_KIND_SERVER": 2,
		"SPAN_KIND_CLIENT": 3, "SPAN_KIND_PRODUCER": 4, "SPAN_KIND_CONSUMER": 5,
	}
	statusCodes     = map[string]int32{"STATUS_CODE_UNSET": 0, "STATUS_CODE_OK": 1, "STATUS_CODE_ERROR": 2}
	severityNumbers = func() map[string]int32 {
		names := map[string]int32{"SEVERITY_NUMBER_UNSPECIFIED": 0}
		for i, name := range [...]string{"TRACE", "DEBUG", "INFO", "WARN", "ERROR", "FATAL"} {
			for j, nth := range [...]string{"", "2", "3", "4"} {
				names["SEVERITY_NUMBER_"+name+nth] = int32(4*i + j + 1)
			}
		}
		return names
	}()
)

func spanEnd(s *otel.Span) int64 {
	if !s.Ended {
		return 0
	}
	return s.End()
}

func linkAttributes(l *otel.Link) *otel.Attributes { return &l.Attributes }

func eventAttributes(ev *otel.Event) *otel.Attributes { return &ev.Attributes }
