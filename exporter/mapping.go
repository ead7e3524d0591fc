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

// A mapper turns spans into entries of a batch.
type mapper struct {
	b     *format.Batch
	text  scratch.Text
	order order

	changed []int // attributes of a span that ends
}

func (m *mapper) reset() {
	m.b.Discard()
	m.text.Reset()
}

func (m *mapper) addText(name, s string) {
	if s != "" {
		m.b.String(name, s)
	}
}

func (m *mapper) addCount(name string, n int) {
	if n > 0 {
		m.b.U64(name, uint64(n))
	}
}

func (m *mapper) addTime(t time.Time) {
	if s := t.Unix(); s >= 0 && s < math.MaxInt64/1_000_000_000 {
		m.b.U64(format.AttrTime, uint64(t.UnixNano()))
		return
	}
	v := format.TimeValue(t)
	m.b.Value(format.AttrTime, &v)
}

// addUsers adds the user's attributes, which come last in an entry.
func (m *mapper) addUsers(kvs []attribute.KeyValue) {
	m.b.User()
	for i := range kvs {
		m.value(string(kvs[i].Key), &kvs[i].Value)
	}
}

// whole maps a span that has ended to an entry. With end, what follows tells of its end,
// too, in case that its start was recorded.
func (m *mapper) whole(s sdktrace.ReadOnlySpan, scope *instrumentation.Scope, res *format.Resource, wait, end bool) format.SpanRef {
	status := s.Status()
	attrs := s.Attributes()
	sc, parent := s.SpanContext(), s.Parent()
	start := s.StartTime()
	h := head(&sc, &parent, start, res)
	if h.Wait = wait; end {
		m.b.SpanOrEnd(&h)
	} else {
		m.b.Span(&h)
	}
	md := format.Metadata{Name: s.Name(), Target: scope.Name, Level: level(status)}
	code(&md, attrs)
	m.b.Begin(format.Optional[string]{}, &md)
	m.b.ID(format.AttrSpanID, h.Ref.SpanID[:])
	m.addTime(start)
	m.duration(start, s.EndTime())
	m.addText(format.AttrKind, kind(s.SpanKind()))
	m.status(status)
	m.context(&sc, parent.IsRemote())
	m.scope(scope)
	m.counts(s)
	m.addUsers(attrs)
	m.b.End()
	return h.Ref
}

// counts adds how much of a span the SDK has dropped.
func (m *mapper) counts(s sdktrace.ReadOnlySpan) {
	m.addCount(format.AttrDroppedAttributes, s.DroppedAttributes())
	m.addCount(format.AttrDroppedEvents, s.DroppedEvents())
	m.addCount(format.AttrDroppedLinks, s.DroppedLinks())
}

// start maps a span that starts, as far as that tells anything.
func (m *mapper) start(s sdktrace.ReadWriteSpan, scope *instrumentation.Scope, b *begun, res *format.Resource) format.SpanHead {
	sc, parent := s.SpanContext(), s.Parent()
	start := s.StartTime()
	b.start = start.Sub(clock)
	h := head(&sc, &parent, start, res)
	h.Open = true
	m.b.Span(&h)
	md := format.Metadata{Name: b.name, Target: scope.Name, Level: format.LevelInfo}
	code(&md, b.attrs)
	m.b.Begin(format.Optional[string]{}, &md)
	m.b.ID(format.AttrSpanID, h.Ref.SpanID[:])
	m.addTime(start)
	m.addText(format.AttrKind, kind(s.SpanKind()))
	m.context(&sc, parent.IsRemote())
	m.scope(scope)
	m.addUsers(b.attrs)
	m.b.End()
	return h
}

// head returns where a span belongs.
func head(sc, parent *trace.SpanContext, start time.Time, res *format.Resource) format.SpanHead {
	h := format.SpanHead{Ref: ref(sc), Resource: res, Time: start.UnixNano()}
	if parent.IsValid() {
		h.Parent = ref(parent)
		h.Remote = parent.IsRemote()
	}
	return h
}

// context adds what else is in a span's context.
func (m *mapper) context(sc *trace.SpanContext, remote bool) {
	m.flags(format.AttrTraceFlags, sc.TraceFlags(), remote)
	if ts := sc.TraceState(); ts.Len() > 0 {
		m.addText(format.AttrTraceState, ts.String())
	}
}

func ref(sc *trace.SpanContext) format.SpanRef {
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

func (m *mapper) duration(start, end time.Time) {
	if end.IsZero() {
		return
	}
	d := end.Sub(start)
	m.b.U64(format.AttrDuration, uint64(max(d, 0)))
	if d < 0 {
		m.b.I64(format.AttrClockSkew, int64(d))
	}
}

// status adds the status. The numbers of codes are not those of OTLP.
func (m *mapper) status(s sdktrace.Status) {
	switch s.Code {
	case codes.Error:
		m.b.String(format.AttrStatusCode, "ERROR")
	case codes.Ok:
		m.b.String(format.AttrStatusCode, "OK")
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
		m.b.U64(name, n)
	}
}

func (m *mapper) scope(s *instrumentation.Scope) {
	m.addText(format.AttrScopeVersion, s.Version)
	m.addText(format.AttrScopeSchemaURL, s.SchemaURL)
	if s.Attributes.Len() > 0 {
		for i := s.Attributes.Iter(); i.Next(); {
			kv := i.Attribute()
			m.value(format.AttrScopePrefix+string(kv.Key), &kv.Value)
		}
	}
}

// code takes the place in the source from attributes that name it.
func code(md *format.Metadata, attrs []attribute.KeyValue) {
	for i := range attrs {
		kv := &attrs[i]
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
		m.child(format.NameLink, target, format.LevelInfo)
		m.b.ID(format.AttrLinkTraceID, trace[:])
		m.b.ID(format.AttrLinkSpanID, span[:])
		m.flags(format.AttrLinkFlags, sc.TraceFlags(), sc.IsRemote())
		if ts := sc.TraceState(); ts.Len() > 0 {
			m.addText(format.AttrLinkTraceState, ts.String())
		}
		m.addCount(format.AttrDroppedAttributes, l.DroppedAttributeCount)
		m.addUsers(l.Attributes)
		m.b.End()
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
		m.child(ev.Name, target, level)
		m.b.Bool(format.AttrEvent, true)
		m.addTime(ev.Time)
		m.addCount(format.AttrDroppedAttributes, ev.DroppedAttributeCount)
		m.addUsers(ev.Attributes)
		m.b.End()
	}
}

func (m *mapper) child(name, target string, l format.Level) {
	m.b.Begin(format.Optional[string]{}, &format.Metadata{Name: name, Target: target, Level: l})
}

// finish maps the end of a span that began as b.
func (m *mapper) finish(s sdktrace.ReadOnlySpan, id format.SpanRef, name string, start, end time.Time, target string, b *begun) {
	status, attrs := s.Status(), s.Attributes()
	m.changed = b.changed(m.changed[:0], attrs)
	md := format.Metadata{Name: format.NameSpanEnd, Target: target, Level: format.LevelTrace}
	if status.Code == codes.Error {
		md.Level = format.LevelError
	}
	for _, i := range m.changed {
		code(&md, attrs[i:i+1])
	}
	var message format.Optional[string]
	if name != b.name {
		message = format.Some(name)
	}
	m.b.Begin(message, &md)
	m.b.ID(format.AttrSpanID, id.SpanID[:])
	m.duration(start, end)
	m.status(status)
	m.counts(s)
	m.b.User()
	for _, i := range m.changed {
		m.value(string(attrs[i].Key), &attrs[i].Value)
	}
	m.b.End()
}

// resourceEntry maps a resource.
func resourceEntry(r *resource.Resource) *format.TraceEntry {
	e := &format.TraceEntry{Metadata: format.Metadata{Name: format.NameResource, Level: format.LevelInfo}}
	if name := serviceName(r); name != "" {
		e.Message = format.Some(name)
	}
	var jsons, anys []string
	for i := r.Iter(); i.Next(); {
		kv := i.Attribute()
		name := format.EscapeName(string(kv.Key))
		v, s := stored(&kv.Value)
		e.Attributes = append(e.Attributes, format.Attribute{Name: name, Value: v})
		switch s {
		case json:
			jsons = append(jsons, name)
		case anyValue:
			anys = append(anys, name)
		}
	}
	add := func(name, text string) {
		if text != "" {
			e.Attributes = append(e.Attributes, format.Attribute{Name: name, Value: format.StringValue(text)})
		}
	}
	add(format.AttrSchemaURL, r.SchemaURL())
	if jsons != nil {
		add(format.AttrJSON, string(jsontext.AppendStrings(nil, jsons)))
	}
	if anys != nil {
		add(format.AttrAnyValue, string(jsontext.AppendStrings(nil, anys)))
	}
	return e
}

func serviceName(r *resource.Resource) string {
	if v, ok := r.Set().Value("service.name"); ok {
		return v.String()
	}
	return ""
}

// recovered turns a panic into an error: whatever is wrong here must not end the
// application.
func recovered(err *error) {
	if r := recover(); r != nil {
		*err = fmt.Errorf("exporter: panic: %v", r)
	}
}
