package codec

import (
	"strings"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/entrace-go/entrace/internal/otel"
)

// A name holds the names of a field in the two encodings.
type name struct {
	number protowire.Number
	key    string // in JSON
	snake  string // another key that JSON may have for the field
	begin  string // the key as it is written
}

func newName(number protowire.Number, key string) name {
	var snake strings.Builder
	for _, c := range key {
		if c >= 'A' && c <= 'Z' {
			snake.WriteByte('_')
			c += 'a' - 'A'
		}
		snake.WriteRune(c)
	}
	return name{number, key, snake.String(), `"` + key + `":`}
}

// names are the names of the fields of a message. The index in it identifies a field.
type names []name

// key returns the index of a key, below 0 if it is unknown. The search begins at next, because most often
// the key is there or shortly after it.
func (n names) key(key string, next int) int {
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

// formerKeys are the keys of OTLP before version 1.0, and that of Tempo's API, with what they are now.
var formerKeys = map[string]string{
	"instrumentationLibrarySpans": "scopeSpans", "instrumentation_library_spans": "scopeSpans", "instrumentationLibraryLogs": "scopeLogs",
	"instrumentation_library_logs": "scopeLogs", "instrumentationLibrary": "scope", "instrumentation_library": "scope", "batches": "resourceSpans",
}

// number does the same as key for a field number.
func (n names) number(number protowire.Number, next int) int {
	for i := max(next-1, 0); i < len(n); i++ { // begins one before next, for a repeated field
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

// A kind reads and writes a field of a T.
type kind[T any] interface {
	wire() protowire.Type
	read(r *Reader, to *T)
	// write appends the field, unless it has its default.
	write(b []byte, e Encoding, n *name, from *T) []byte
}

// A field is a field of a message whose values are in a T.
type field[T any] struct {
	number protowire.Number
	key    string
	kind   kind[T]
}

// A message holds the fields of a message, in the order in which they are written.
type message[T any] struct {
	names names
	kinds []kind[T]
}

func newMessage[T any](fields ...field[T]) *message[T] {
	m := new(message[T])
	for _, f := range fields {
		m.names = append(m.names, newName(f.number, f.key))
		m.kinds = append(m.kinds, f.kind)
	}
	return m
}

// has reports whether m has a field of that number and type.
func (m *message[T]) has(number protowire.Number, t protowire.Type) bool {
	i := m.names.number(number, 0)
	return i >= 0 && m.kinds[i].wire() == t
}

// read reads a whole message.
func (m *message[T]) read(r *Reader, to *T) {
	f := r.in.enter(true)
	for i := r.in.field(m.names, 0); i >= 0; i = r.in.field(m.names, i+1) {
		m.kinds[i].read(r, to)
	}
	r.in.leave(f)
}

// write appends the fields of a message.
func (m *message[T]) write(b []byte, e Encoding, from *T) []byte {
	for i := range m.kinds {
		b = m.kinds[i].write(b, e, &m.names[i], from)
	}
	return b
}

var spanMessage = newMessage(
	field[otel.Span]{1, "traceId", id[otel.Span](func(s *otel.Span) []byte { return s.TraceID[:] })},
	field[otel.Span]{2, "spanId", id[otel.Span](func(s *otel.Span) []byte { return s.SpanID[:] })},
	field[otel.Span]{3, "traceState", text[otel.Span](func(s *otel.Span) *string { return &s.TraceState })},
	field[otel.Span]{4, "parentSpanId", id[otel.Span](func(s *otel.Span) []byte { return s.Parent[:] })},
	field[otel.Span]{16, "flags", flags[otel.Span](func(s *otel.Span) *uint32 { return &s.Flags })},
	field[otel.Span]{5, "name", text[otel.Span](func(s *otel.Span) *string { return &s.Name })},
	field[otel.Span]{6, "kind", enum[otel.Span]{
		spanKinds, func(s *otel.Span) int32 { return int32(s.Kind) }, func(s *otel.Span, n int32) { s.Kind = otel.SpanKindOf(n) },
	}},
	field[otel.Span]{7, "startTimeUnixNano", nano[otel.Span]{
		func(s *otel.Span) uint64 { return uint64(s.Start) }, func(s *otel.Span, n uint64) { s.Start = int64(n) },
	}},
	// While a span is read, its duration field holds its end time.
	field[otel.Span]{8, "endTimeUnixNano", nano[otel.Span]{spanEnd, func(s *otel.Span, n uint64) { s.Duration = int64(n) }}},
	field[otel.Span]{9, "attributes", attributes[otel.Span](func(s *otel.Span) *otel.Attributes { return &s.Attributes })},
	field[otel.Span]{10, "droppedAttributesCount", count[otel.Span](func(s *otel.Span) *uint32 { return &s.DroppedAttributes })},
	field[otel.Span]{12, "droppedEventsCount", count[otel.Span](func(s *otel.Span) *uint32 { return &s.DroppedEvents })},
	field[otel.Span]{14, "droppedLinksCount", count[otel.Span](func(s *otel.Span) *uint32 { return &s.DroppedLinks })},
	field[otel.Span]{15, "status", part[otel.Span]{statusMessage}},
	field[otel.Span]{13, "links", list[otel.Span, otel.Link]{linkMessage, func(s *otel.Span) *[]otel.Link { return &s.Links }, linkAttributes}},
	field[otel.Span]{11, "events", list[otel.Span, otel.Event]{eventMessage, func(s *otel.Span) *[]otel.Event { return &s.Events }, eventAttributes}},
)

var statusMessage = newMessage(
	field[otel.Span]{2, "message", text[otel.Span](func(s *otel.Span) *string { return &s.Description })},
	field[otel.Span]{3, "code", enum[otel.Span]{
		statusCodes, func(s *otel.Span) int32 { return int32(s.Status) }, func(s *otel.Span, n int32) { s.Status = otel.StatusOf(n) },
	}},
)

var linkMessage = newMessage(
	field[otel.Link]{1, "traceId", id[otel.Link](func(l *otel.Link) []byte { return l.TraceID[:] })},
	field[otel.Link]{2, "spanId", id[otel.Link](func(l *otel.Link) []byte { return l.SpanID[:] })},
	field[otel.Link]{3, "traceState", text[otel.Link](func(l *otel.Link) *string { return &l.TraceState })},
	field[otel.Link]{4, "attributes", attributes[otel.Link](linkAttributes)},
	field[otel.Link]{5, "droppedAttributesCount", count[otel.Link](func(l *otel.Link) *uint32 { return &l.Dropped })},
	field[otel.Link]{6, "flags", flags[otel.Link](func(l *otel.Link) *uint32 { return &l.Flags })},
)

var eventMessage = newMessage(
	field[otel.Event]{1, "timeUnixNano", nano[otel.Event]{
		func(ev *otel.Event) uint64 { return uint64(ev.Time) },
		func(ev *otel.Event, n uint64) { ev.Time, ev.HasTime = int64(n), n != 0 },
	}},
	field[otel.Event]{2, "name", text[otel.Event](func(ev *otel.Event) *string { return &ev.Name })},
	field[otel.Event]{3, "attributes", attributes[otel.Event](eventAttributes)},
	field[otel.Event]{4, "droppedAttributesCount", count[otel.Event](func(ev *otel.Event) *uint32 { return &ev.Dropped })},
)

var logMessage = newMessage(
	field[otel.Log]{1, "timeUnixNano", nano[otel.Log]{
		func(l *otel.Log) uint64 { return uint64(l.Time) },
		func(l *otel.Log, n uint64) { l.Time, l.HasTime = int64(n), n != 0 },
	}},
	field[otel.Log]{11, "observedTimeUnixNano", nano[otel.Log]{
		func(l *otel.Log) uint64 { return uint64(l.Observed) }, func(l *otel.Log, n uint64) { l.Observed = int64(n) },
	}},
	field[otel.Log]{2, "severityNumber", enum[otel.Log]{
		severityNumbers, func(l *otel.Log) int32 { return int32(l.Severity) }, func(l *otel.Log, n int32) { l.Severity = uint32(n) },
	}},
	field[otel.Log]{3, "severityText", text[otel.Log](func(l *otel.Log) *string { return &l.SeverityText })},
	field[otel.Log]{5, "body", value[otel.Log](func(l *otel.Log) *otel.Any { return &l.Body })},
	field[otel.Log]{6, "attributes", attributes[otel.Log](func(l *otel.Log) *otel.Attributes { return &l.Attributes })},
	field[otel.Log]{7, "droppedAttributesCount", count[otel.Log](func(l *otel.Log) *uint32 { return &l.Dropped })},
	field[otel.Log]{8, "flags", flags[otel.Log](func(l *otel.Log) *uint32 { return &l.Flags })},
	field[otel.Log]{9, "traceId", id[otel.Log](func(l *otel.Log) []byte { return l.TraceID[:] })},
	field[otel.Log]{10, "spanId", id[otel.Log](func(l *otel.Log) []byte { return l.SpanID[:] })},
	field[otel.Log]{12, "eventName", text[otel.Log](func(l *otel.Log) *string { return &l.EventName })},
)

var scopeMessage = newMessage(
	field[otel.Scope]{1, "name", text[otel.Scope](func(s *otel.Scope) *string { return &s.Name })},
	field[otel.Scope]{2, "version", text[otel.Scope](func(s *otel.Scope) *string { return &s.Version })},
	field[otel.Scope]{3, "attributes", attributes[otel.Scope](func(s *otel.Scope) *otel.Attributes { return &s.Attributes })},
	field[otel.Scope]{4, "droppedAttributesCount", count[otel.Scope](func(s *otel.Scope) *uint32 { return &s.Dropped })},
)

var resourceMessage = newMessage(
	field[otel.Resource]{1, "attributes", attributes[otel.Resource](func(r *otel.Resource) *otel.Attributes { return &r.Attributes })},
	field[otel.Resource]{2, "droppedAttributesCount", count[otel.Resource](func(r *otel.Resource) *uint32 { return &r.Dropped })},
)

// The indices of the fields of KeyValue and AnyValue. For AnyValue they are the kinds of package otel
// minus one.
const (
	pairKey = iota
	pairValue
)

var (
	pairNames = names{newName(1, "key"), newName(2, "value")}
	listNames = names{newName(1, "values")} // of ArrayValue and KeyValueList
	anyNames  = names{
		otel.String - 1: newName(1, "stringValue"), otel.Bool - 1: newName(2, "boolValue"), otel.Int - 1: newName(3, "intValue"),
		otel.Float - 1: newName(4, "doubleValue"), otel.Bytes - 1: newName(7, "bytesValue"), otel.List - 1: newName(5, "arrayValue"),
		otel.Map - 1: newName(6, "kvlistValue"),
	}
)

// A signal holds the names of the messages around the records of a signal.
type signal struct {
	data   names // TracesData or LogsData
	holder names // ResourceSpans or ResourceLogs
	scope  names // ScopeSpans or ScopeLogs
	ids    names // of Span or LogRecord
}

// The indices in holder and scope.
const (
	fieldHead  = iota // the resource or the scope
	fieldItems        // scopes, or spans or log records
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
		data:   names{newName(1, "resourceSpans")},
		holder: names{newName(1, "resource"), newName(2, "scopeSpans"), newName(3, "schemaUrl")},
		scope:  names{newName(1, "scope"), newName(2, "spans"), newName(3, "schemaUrl")},
		ids:    spanMessage.names.only("traceId", "spanId", "parentSpanId"),
	},
	Logs: {
		data:   names{newName(1, "resourceLogs")},
		holder: names{newName(1, "resource"), newName(2, "scopeLogs"), newName(3, "schemaUrl")},
		scope:  names{newName(1, "scope"), newName(2, "logRecords"), newName(3, "schemaUrl")},
		ids:    logMessage.names.only("traceId", "spanId"),
	},
}

// dataNames are the names of the top-level messages, by signal. Metrics are passed over. In JSON others follow, in
// which Tempo's and Jaeger's APIs have a top-level message.
var dataNames = names{
	Spans: signals[Spans].data[0], Logs: signals[Logs].data[0], metrics: newName(0, "resourceMetrics"), newName(0, "trace"), newName(0, "result"),
}

const metrics = Logs + 1

// only returns the names with these keys.
func (n names) only(keys ...string) (some names) {
	for _, key := range keys {
		some = append(some, n[n.key(key, 0)])
	}
	return some
}

// The names of enums, as JSON may have them in place of numbers.
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

func spanEnd(s *otel.Span) uint64 {
	if !s.Ended {
		return 0
	}
	return uint64(s.End())
}

func linkAttributes(l *otel.Link) *otel.Attributes { return &l.Attributes }

func eventAttributes(ev *otel.Event) *otel.Attributes { return &ev.Attributes }
