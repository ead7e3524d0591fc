package otel

import (
	"log/slog"
	"math"
	"slices"
	"strings"

	"github.com/entrace-go/entrace/format"
	"github.com/entrace-go/entrace/internal/core/mapping"
	"github.com/entrace-go/entrace/internal/core/wire"
)

// A SpanKind is OTLP's Span.kind.
type SpanKind uint8

// The kinds of spans, with OTLP's numbers.
const (
	KindUnspecified SpanKind = iota
	KindInternal
	KindServer
	KindClient
	KindProducer
	KindConsumer
)

var kindNames = [...]string{"unspecified", "internal", "server", "client", "producer", "consumer"}

// String returns the name of k, as in the attribute otel.kind. For an unknown number it returns "unspecified".
func (k SpanKind) String() string {
	if int(k) < len(kindNames) {
		return kindNames[k]
	}
	return kindNames[0]
}

// ParseSpanKind returns the kind for a name that [SpanKind.String] returns.
func ParseSpanKind(name string) (SpanKind, bool) {
	i := slices.Index(kindNames[:], name)
	return SpanKind(max(i, 0)), i >= 0
}

// SpanKindOf returns the kind for OTLP's number n, or KindUnspecified for an unknown number.
func SpanKindOf(n int32) SpanKind {
	if n < 0 || n > int32(KindConsumer) {
		return KindUnspecified
	}
	return SpanKind(n)
}

// A Status is OTLP's Status.code.
type Status uint8

// The codes of a status, with OTLP's numbers.
const (
	StatusUnset Status = iota
	StatusOK
	StatusError
)

var statusNames = [...]string{"unset", "ok", "error"}

// String returns the name of s in lower case, or "unset" for an unknown number.
func (s Status) String() string {
	if int(s) < len(statusNames) {
		return statusNames[s]
	}
	return statusNames[0]
}

// StatusOf returns the status for OTLP's number n, or StatusUnset for an unknown number.
func StatusOf(n int32) Status {
	if n < 0 || n > int32(StatusError) {
		return StatusUnset
	}
	return Status(n)
}

// A Scope is an instrumentation scope.
type Scope struct {
	Name       string
	Version    string
	SchemaURL  string
	Attributes Attributes
	Dropped    uint32
}

// A Resource is the origin of spans and log records, for example a process.
type Resource struct {
	Attributes Attributes
	SchemaURL  string
	Dropped    uint32
}

// A Span is an OpenTelemetry span. Times are in nanoseconds since 1970.
type Span struct {
	ID          uint32 // id of its entry
	Name        string
	TraceID     [16]byte
	SpanID      [8]byte
	Parent      [8]byte // zero: none
	TraceState  string
	Flags       uint32
	Kind        SpanKind
	Start       int64
	ExactStart  string // see mapping.AttrTime; only written
	Duration    int64  // negative: the clock ran backwards
	Ended       bool
	Status      Status
	Description string // description of the status
	Scope       Scope
	Attributes  Attributes

	DroppedAttributes, DroppedEvents, DroppedLinks uint32

	Links  []Link
	Events []Event

	MadeIDs  bool            // the ids are generated, because the source had none
	Unmarked bool            // the span has not ended, and the source has no attribute that says so
	Metadata format.Metadata // of its entry, if the entry was read or written
}

// End returns the end time of the span. If the span has not ended, it returns the start time.
func (s *Span) End() int64 { return s.Start + s.Duration }

// A Link is a link of a span to another span.
type Link struct {
	TraceID    [16]byte
	SpanID     [8]byte
	TraceState string
	Flags      uint32
	Attributes Attributes
	Dropped    uint32
	Metadata   format.Metadata // of its entry, if the entry was read or written
}

// An Event is an event of a span.
type Event struct {
	ID         uint32 // id of its entry
	Name       string
	Time       int64
	ExactTime  string // see mapping.AttrTime; only written
	HasTime    bool
	Attributes Attributes
	Dropped    uint32
	Metadata   format.Metadata // of its entry, if the entry was read or written
}

// A Log is a log record. Times are in nanoseconds since 1970.
type Log struct {
	ID           uint32 // id of its entry
	Message      string
	Body         Any // the message as OTLP's value, which need not be a text
	Time         int64
	ExactTime    string // see mapping.AttrTime; only written
	HasTime      bool
	Observed     int64  // 0 if there is none
	Severity     uint32 // OTLP's severity_number
	SeverityText string
	EventName    string
	TraceID      [16]byte // zero if none
	SpanID       [8]byte
	Flags        uint32
	Scope        Scope
	Attributes   Attributes
	Dropped      uint32
	Failed       bool            // the request of its span failed; only written
	Metadata     format.Metadata // of its entry, if the entry was read or written
}

// Attributes that only this package reads and writes.
const (
	AttrTraceState     = "otel.trace_state"
	AttrSchemaURL      = "otel.resource.schema_url"
	AttrScopeSchemaURL = "otel.scope.schema_url"
	AttrScopeDropped   = "otel.scope.dropped_attributes_count"
	AttrLinkTraceState = "otel.link.trace_state"
	AttrLinkFlags      = "otel.link.flags"
)

// Attributes that only imported entries have.
const (
	AttrSeverityNumber = "severity_number"
	AttrSeverityText   = "severity_text"
	AttrObserved       = "observed_time_unix_nano"
	AttrBody           = "otel.body"
	AttrEventName      = "otel.event_name"
	AttrMadeIDs        = "otel.made_ids"
	AttrOpen           = "entrace.open" // false on a span that has not ended if OTLP had no attribute that said so
)

// ReadSpan reads a span from its entry in a view, without links and events. The parameter up is the parent span; it
// may be invalid.
func ReadSpan(e *format.TraceEntry, up format.SpanRef) *Span { return new(Reader).Span(e, up) }

// Span reads a span as ReadSpan does.
func (r *Reader) Span(e *format.TraceEntry, up format.SpanRef) *Span {
	p, s := &r.parsed, &r.span
	p.parse(e)
	*s = Span{
		Name: e.Metadata.Name, Metadata: e.Metadata, Scope: Scope{Name: e.Metadata.Target, Attributes: p.scope}, Attributes: p.users,
		Flags: mapping.DefaultTraceFlags, Kind: KindInternal, Parent: up.SpanID, // up is the parent even if its trace id is zero
	}
	open, skewed, skew := true, false, int64(0)
	for _, a := range slices.Backward(p.own) { // backward, so that the first of several attributes with the same name counts
		v := a.Value
		switch a.Name {
		case AttrTraceState:
			s.TraceState = v.Text()
		case mapping.AttrTraceFlags:
			s.Flags = numberOr(v, mapping.DefaultTraceFlags)
		case mapping.AttrStatusDescription:
			s.Description = v.Text()
		case mapping.AttrDroppedAttributes:
			s.DroppedAttributes = numberOr(v, 0)
		case mapping.AttrDroppedEvents:
			s.DroppedEvents = numberOr(v, 0)
		case mapping.AttrDroppedLinks:
			s.DroppedLinks = numberOr(v, 0)
		case mapping.AttrScopeVersion:
			s.Scope.Version = v.Text()
		case AttrScopeSchemaURL:
			s.Scope.SchemaURL = v.Text()
		case AttrScopeDropped:
			s.Scope.Dropped = numberOr(v, 0)
		case AttrMadeIDs:
			s.MadeIDs = v.Bool()
		case AttrOpen:
			open = v.Bool()
		case format.AttrTraceID:
			s.TraceID, _ = wire.ParseID[[16]byte](v.Text())
		case format.AttrSpanID:
			s.SpanID, _ = wire.ParseID[[8]byte](v.Text())
		case format.AttrParentSpanID:
			if parent, ok := wire.ParseID[[8]byte](v.Text()); ok {
				s.Parent = parent
			} else {
				s.Parent = up.SpanID
			}
		case format.AttrTime:
			s.Start, _ = timeOf(v)
		case format.AttrDuration:
			n, _ := v.U64()
			s.Duration, s.Ended = int64(min(n, math.MaxInt64)), true
		case mapping.AttrClockSkew:
			skew, skewed = timeOf(v)
		case mapping.AttrKind:
			var ok bool
			s.Kind, ok = ParseSpanKind(v.Text())
			if !ok {
				s.Kind = KindInternal
			}
		case mapping.AttrStatusCode:
			switch v.Text() {
			case "OK":
				s.Status = StatusOK
			case "ERROR":
				s.Status = StatusError
			default:
				s.Status = StatusUnset
			}
		}
	}
	s.Unmarked = !s.Ended && !open
	if skewed {
		s.Duration = skew
	}
	return s
}

// ReadLink reads a link from its entry.
func ReadLink(e *format.TraceEntry) Link { return new(Reader).Link(e) }

// Link reads a link as ReadLink does.
func (r *Reader) Link(e *format.TraceEntry) Link {
	p := &r.parsed
	p.parse(e)
	l := Link{
		TraceState: p.text(AttrLinkTraceState), Flags: p.number(AttrLinkFlags, mapping.DefaultTraceFlags),
		Attributes: p.users, Dropped: p.number(mapping.AttrDroppedAttributes, 0), Metadata: e.Metadata,
	}
	l.TraceID, _ = wire.ParseID[[16]byte](p.text(mapping.AttrLinkTraceID))
	l.SpanID, _ = wire.ParseID[[8]byte](p.text(mapping.AttrLinkSpanID))
	return l
}

// Event reads a span event from its entry.
func (r *Reader) Event(e *format.TraceEntry) Event {
	p := &r.parsed
	p.parse(e)
	ev := Event{Name: e.Metadata.Name, Attributes: p.users, Dropped: p.number(mapping.AttrDroppedAttributes, 0), Metadata: e.Metadata}
	ev.Time, ev.HasTime = p.time(format.AttrTime)
	return ev
}

// severities holds OTLP's severity_number for each level.
var severities = [...]uint32{format.LevelTrace: 1, format.LevelDebug: 5, format.LevelInfo: 9, format.LevelWarn: 13, format.LevelError: 17}

// namedSeverities maps the names of loggers' levels to severity_numbers.
var namedSeverities = map[string]uint32{
	"TRACE": 1, "DEBUG": 5, "INFO": 9, "WARN": 13, "ERROR": 17, // no need to make them lower case
	"trace": 1, "debug": 5, "info": 9, "information": 9, "notice": 10, "warn": 13, "warning": 13,
	"error": 17, "err": 17, "severe": 17, "crit": 21, "critical": 21, "fatal": 21, "panic": 21, "alert": 21, "emerg": 21, "emergency": 21,
}

// SeverityNamed returns the severity_number for the name of a level, ignoring case.
func SeverityNamed(name string) (n uint32, ok bool) {
	n, ok = namedSeverities[name]
	if !ok && len(name) < 12 {
		n, ok = namedSeverities[strings.ToLower(name)]
	}
	return n, ok
}

// SeverityOf returns the lowest severity_number of a level.
func SeverityOf(l format.Level) uint32 {
	if int(l) < len(severities) {
		return severities[l]
	}
	return 0
}

// severityOf returns the severity_number of a log record of log/slog. logLevel is the level as text. If it is one
// of slog's levels, the number is level + 9 as in OpenTelemetry's bridge for slog, limited to OTLP's range of 1 to
// 24. Otherwise the number follows from l.
func severityOf(l format.Level, logLevel string) uint32 {
	var exact slog.Level
	if logLevel != "" && exact.UnmarshalText([]byte(logLevel)) == nil {
		severity := uint32(min(max(int64(exact)+9, 1), 24))
		if LevelOf(severity) == l { // otherwise ReplaceAttr has changed the text
			return severity
		}
	}
	return SeverityOf(l)
}

// defaultFlags returns the flags of a log record whose entry has no trace_flags.
func (l *Log) defaultFlags() uint32 {
	if l.SpanID == ([8]byte{}) {
		return 0
	}
	return mapping.DefaultLogFlags
}

// defaultObserved returns the observed time of a log record whose entry has no observed_time_unix_nano. It returns
// the time of the record, or 0 if the time is unknown.
func (l *Log) defaultObserved() int64 {
	if !l.HasTime {
		return 0
	}
	return l.Time
}

// LevelOf returns the level for a severity_number. For 0 it returns Info.
func LevelOf(severity uint32) format.Level {
	switch {
	case severity == 0:
		return format.LevelInfo
	case severity < 5:
		return format.LevelTrace
	case severity < 9:
		return format.LevelDebug
	case severity < 13:
		return format.LevelInfo
	case severity < 17:
		return format.LevelWarn
	}
	return format.LevelError
}

// Log reads a log record from its entry in a view.
func (r *Reader) Log(e *format.TraceEntry) *Log {
	p, l := &r.parsed, &r.log
	p.parse(e)
	*l = Log{
		Message: e.Message.Value, Metadata: e.Metadata, Attributes: p.users,
		Scope: Scope{
			Name: e.Metadata.Target, Version: p.text(mapping.AttrScopeVersion), SchemaURL: p.text(AttrScopeSchemaURL),
			Attributes: p.scope, Dropped: p.number(AttrScopeDropped, 0),
		},
		Severity:     p.number(AttrSeverityNumber, severityOf(e.Metadata.Level, p.text(mapping.AttrLogLevel))),
		SeverityText: p.text(AttrSeverityText), EventName: p.text(AttrEventName), Dropped: p.number(mapping.AttrDroppedAttributes, 0),
		Body: TextAny(e.Message.Value),
	}
	if _, ok := p.get(AttrSeverityText); !ok {
		l.SeverityText = p.text(mapping.AttrLogLevel)
		if l.SeverityText == "" {
			l.SeverityText = e.Metadata.Level.String()
		}
	}
	if body, ok := p.get(AttrBody); ok {
		if v, err := ParseAnyValue(body.Bytes()); err == nil {
			l.Body = v
		}
	}
	l.Time, l.HasTime = p.time(format.AttrTime)
	var observed bool
	l.Observed, observed = p.time(AttrObserved)
	if !observed {
		l.Observed = l.defaultObserved()
	}
	l.TraceID, _ = wire.ParseID[[16]byte](p.text(format.AttrTraceID))
	l.SpanID, _ = wire.ParseID[[8]byte](p.text(format.AttrSpanID))
	l.Flags = p.number(mapping.AttrTraceFlags, l.defaultFlags())
	return l
}

// ReadResource reads a resource from its entry.
func ReadResource(e *format.TraceEntry) *Resource {
	p := new(parsed)
	p.parse(e)
	return &Resource{Attributes: p.users, SchemaURL: p.text(AttrSchemaURL), Dropped: p.number(mapping.AttrDroppedAttributes, 0)}
}

// Service returns the value of the attribute service.name, or "" if the resource has none.
func (r *Resource) Service() string {
	for i := range r.Attributes {
		if r.Attributes[i].Name == "service.name" {
			v := r.Attributes[i].Any()
			return v.Display()
		}
	}
	return ""
}
