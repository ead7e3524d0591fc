package exporter

import (
	"fmt"
	"math"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/sdk/instrumentation"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"

	"github.com/entrace-go/entrace/format"
	"github.com/entrace-go/entrace/internal/jsontext"
	"github.com/entrace-go/entrace/internal/scratch"
	"github.com/entrace-go/entrace/internal/source"
)

// A mapper turns one span at a time into entries. What it returns is valid until
// reset; it aliases the span.
type mapper struct {
	span  format.Span
	attrs []format.Attribute // of all entries, one behind the other
	text  scratch.Text

	// Of the entry that is being built:
	from  int      // its first attribute
	jsons []string // names of its attributes by their shape
	anys  []string
}

func (m *mapper) reset() {
	clear(m.attrs)
	clear(m.span.Children)
	m.attrs = m.attrs[:0]
	m.span = format.Span{Children: m.span.Children[:0]}
	m.jsons, m.anys = m.jsons[:0], m.anys[:0]
	m.text.Reset()
}

// begin begins the attributes of an entry.
func (m *mapper) begin() { m.from = len(m.attrs) }

// end returns the attributes since begin, with the marks they need.
func (m *mapper) end() []format.Attribute {
	m.mark(format.AttrJSON, m.jsons)
	m.mark(format.AttrAnyValue, m.anys)
	m.jsons, m.anys = m.jsons[:0], m.anys[:0]
	return m.attrs[m.from:len(m.attrs):len(m.attrs)]
}

func (m *mapper) mark(name string, names []string) {
	if len(names) == 0 {
		return
	}
	at := m.text.Mark()
	m.text.B = jsontext.AppendStrings(m.text.B, names)
	m.add(name, format.StringValue(m.text.From(at)))
}

func (m *mapper) add(name string, v format.Value) {
	m.attrs = append(m.attrs, format.Attribute{Name: name, Value: v})
}

func (m *mapper) addText(name, s string) {
	if s != "" {
		m.add(name, format.StringValue(s))
	}
}

func (m *mapper) addCount(name string, n int) {
	if n > 0 {
		m.add(name, format.U64Value(uint64(n)))
	}
}

func (m *mapper) addHex(name string, id []byte) {
	at := m.text.Mark()
	m.text.B = format.AppendHex(m.text.B, id)
	m.add(name, format.StringValue(m.text.From(at)))
}

// addUser adds an attribute of the user's under prefix, "" for its own name.
func (m *mapper) addUser(prefix string, kv attribute.KeyValue) {
	name := string(kv.Key)
	switch {
	case prefix != "":
		name = prefix + name
	case format.Reserved(name):
		name = format.EscapeName(name)
	}
	v, s := m.value(kv.Value)
	m.add(name, v)
	switch s {
	case json:
		m.jsons = append(m.jsons, name)
	case anyValue:
		m.anys = append(m.anys, name)
	}
}

func (m *mapper) addUsers(kvs []attribute.KeyValue) {
	for _, kv := range kvs {
		m.addUser("", kv)
	}
}

// start maps a span to m.span, all of it but links and events.
func (m *mapper) start(s sdktrace.ReadOnlySpan, attrs []attribute.KeyValue) {
	sc, parent := s.SpanContext(), s.Parent()
	m.span.Ref = ref(sc)
	if parent.IsValid() {
		m.span.Parent = ref(parent)
		m.span.Remote = parent.IsRemote()
	}
	scope := s.InstrumentationScope()
	status := s.Status()
	m.begin()
	m.addHex(format.AttrSpanID, m.span.Ref.SpanID[:])
	m.add(format.AttrTime, format.TimeValue(s.StartTime()))
	m.duration(s)
	m.addText(format.AttrKind, kind(s.SpanKind()))
	m.status(status)
	m.flags(format.AttrTraceFlags, sc.TraceFlags(), parent.IsRemote())
	if ts := sc.TraceState(); ts.Len() > 0 {
		m.addText(format.AttrTraceState, ts.String())
	}
	m.scope(scope)
	m.addUsers(attrs)
	m.addCount(format.AttrDroppedAttributes, s.DroppedAttributes())
	m.addCount(format.AttrDroppedEvents, s.DroppedEvents())
	m.addCount(format.AttrDroppedLinks, s.DroppedLinks())
	e := &m.span.Entry
	e.Metadata = format.Metadata{Name: s.Name(), Target: scope.Name, Level: level(status)}
	code(&e.Metadata, attrs)
	e.Attributes = m.end()
}

func ref(sc trace.SpanContext) format.SpanRef {
	return format.SpanRef{TraceID: sc.TraceID(), SpanID: sc.SpanID()}
}

func level(s sdktrace.Status) format.Level {
	if s.Code == codes.Error {
		return format.LevelError
	}
	return format.LevelInfo
}

// kind returns what otel.kind says, "" for internal.
func kind(k trace.SpanKind) string {
	switch k {
	case trace.SpanKindInternal:
		return ""
	case trace.SpanKindServer:
		return "server"
	case trace.SpanKindClient:
		return "client"
	case trace.SpanKindProducer:
		return "producer"
	case trace.SpanKindConsumer:
		return "consumer"
	}
	return "unspecified"
}

func (m *mapper) duration(s sdktrace.ReadOnlySpan) {
	end := s.EndTime()
	if end.IsZero() {
		return
	}
	d := end.Sub(s.StartTime())
	m.add(format.AttrDuration, format.U64Value(uint64(max(d, 0))))
	if d < 0 {
		m.add(format.AttrClockSkew, format.I64Value(int64(d)))
	}
}

// status adds the status. The numbers of codes are not those of OTLP.
func (m *mapper) status(s sdktrace.Status) {
	switch s.Code {
	case codes.Error:
		m.add(format.AttrStatusCode, format.StringValue("ERROR"))
	case codes.Ok:
		m.add(format.AttrStatusCode, format.StringValue("OK"))
	}
	m.addText(format.AttrStatusDescription, s.Description)
}

// The bits of OTLP's Span.flags above the eight of W3C.
const (
	flagRemoteKnown = 0x100
	flagRemote      = 0x200
)

func (m *mapper) flags(name string, f trace.TraceFlags, remote bool) {
	n := uint64(f) | flagRemoteKnown
	if remote {
		n |= flagRemote
	}
	if n != format.DefaultTraceFlags {
		m.add(name, format.U64Value(n))
	}
}

func (m *mapper) scope(s instrumentation.Scope) {
	m.addText(format.AttrScopeVersion, s.Version)
	m.addText(format.AttrScopeSchemaURL, s.SchemaURL)
	if s.Attributes.Len() > 0 {
		for i := s.Attributes.Iter(); i.Next(); {
			m.addUser(format.AttrScopePrefix, i.Attribute())
		}
	}
}

// code takes the place in the source from attributes that name it.
func code(md *format.Metadata, attrs []attribute.KeyValue) {
	for _, kv := range attrs {
		if len(kv.Key) < len("code.") || kv.Key[:5] != "code." {
			continue
		}
		switch kv.Key {
		case "code.file.path":
			if kv.Value.Type() == attribute.STRING {
				md.File = format.Some(kv.Value.AsString())
			}
		case "code.line.number":
			if n := kv.Value.AsInt64(); kv.Value.Type() == attribute.INT64 && n >= 0 && n <= math.MaxUint32 {
				md.Line = format.Some(uint32(n))
			}
		case "code.function.name":
			if kv.Value.Type() == attribute.STRING {
				md.ModulePath = format.Some(source.Package(kv.Value.AsString()))
			}
		}
	}
}

// links maps span links to children.
func (m *mapper) links(links []sdktrace.Link, target string) {
	for i := range links {
		l := &links[i]
		sc := l.SpanContext
		trace, span := sc.TraceID(), sc.SpanID()
		m.begin()
		m.addHex(format.AttrLinkTraceID, trace[:])
		m.addHex(format.AttrLinkSpanID, span[:])
		m.flags(format.AttrLinkFlags, sc.TraceFlags(), sc.IsRemote())
		if ts := sc.TraceState(); ts.Len() > 0 {
			m.addText(format.AttrLinkTraceState, ts.String())
		}
		m.addUsers(l.Attributes)
		m.addCount(format.AttrDroppedAttributes, l.DroppedAttributeCount)
		m.child(format.Metadata{Name: format.NameLink, Target: target, Level: format.LevelInfo})
	}
}

// events maps span events to children.
func (m *mapper) events(events []sdktrace.Event, target string) {
	for i := range events {
		ev := &events[i]
		level := format.LevelInfo
		if ev.Name == "exception" {
			level = format.LevelError
		}
		m.begin()
		m.add(format.AttrEvent, format.BoolValue(true))
		m.add(format.AttrTime, format.TimeValue(ev.Time))
		m.addUsers(ev.Attributes)
		m.addCount(format.AttrDroppedAttributes, ev.DroppedAttributeCount)
		m.child(format.Metadata{Name: ev.Name, Target: target, Level: level})
	}
}

func (m *mapper) child(md format.Metadata) {
	m.span.Children = append(m.span.Children, format.TraceEntry{Metadata: md, Attributes: m.end()})
}

// endEntry maps the end of a span that began as b.
func (m *mapper) endEntry(s sdktrace.ReadOnlySpan, b *begun) *format.TraceEntry {
	id := s.SpanContext().SpanID()
	status, attrs := s.Status(), b.changed(s.Attributes())
	e := &m.span.Entry
	*e = format.TraceEntry{Metadata: format.Metadata{Name: format.NameSpanEnd, Target: s.InstrumentationScope().Name, Level: format.LevelTrace}}
	if status.Code == codes.Error {
		e.Metadata.Level = format.LevelError
	}
	if name := s.Name(); name != b.name {
		e.Message = format.Some(name)
	}
	m.begin()
	m.addHex(format.AttrSpanID, id[:])
	m.duration(s)
	m.status(status)
	m.addUsers(attrs)
	if n := s.DroppedAttributes(); n != b.droppedAttrs {
		m.addCount(format.AttrDroppedAttributes, n)
	}
	m.addCount(format.AttrDroppedEvents, s.DroppedEvents())
	if n := s.DroppedLinks(); n != b.droppedLinks {
		m.addCount(format.AttrDroppedLinks, n)
	}
	code(&e.Metadata, attrs)
	e.Attributes = m.end()
	return e
}

// resourceEntry maps a resource.
func (m *mapper) resourceEntry(r *resource.Resource) *format.TraceEntry {
	e := &format.TraceEntry{Metadata: format.Metadata{Name: format.NameResource, Level: format.LevelInfo}}
	if name := serviceName(r); name != "" {
		e.Message = format.Some(name)
	}
	m.begin()
	for i := r.Iter(); i.Next(); {
		m.addUser("", i.Attribute())
	}
	m.addText(format.AttrSchemaURL, r.SchemaURL())
	e.Attributes = m.end()
	return e
}

func serviceName(r *resource.Resource) string {
	if v, ok := r.Set().Value("service.name"); ok {
		return v.String()
	}
	return ""
}

// started is about when the process did, for {time}.
var started = time.Now()

// recovered turns a panic into an error: whatever is wrong here must not end the
// application.
func recovered(err *error) {
	if r := recover(); r != nil {
		*err = fmt.Errorf("exporter: panic: %v", r)
	}
}
