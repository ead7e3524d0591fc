package telemetry

import (
	"math"
	"path"
	"strconv"

	"github.com/entrace-go/entrace/format"
	"github.com/entrace-go/entrace/internal/jsontext"
	"github.com/entrace-go/entrace/internal/source"
)

// A builder makes an entry.
type builder struct {
	e     *format.TraceEntry
	jsons []string
	anys  []string
}

// build begins an entry in e, of which it keeps the memory.
func build(e *format.TraceEntry, name, target string, level format.Level) builder {
	*e = format.TraceEntry{Metadata: format.Metadata{Name: name, Target: target, Level: level}, Attributes: e.Attributes[:0]}
	return builder{e: e}
}

func (b *builder) add(name string, v format.Value) {
	b.e.Attributes = append(b.e.Attributes, format.Attribute{Name: name, Value: v})
}

func (b *builder) text(name, s string) {
	if s != "" {
		b.add(name, format.StringValue(s))
	}
}

func (b *builder) id(name string, id []byte) {
	for _, c := range id {
		if c != 0 {
			b.hex(name, id)
			return
		}
	}
}

func (b *builder) hex(name string, id []byte) {
	var digits [32]byte
	b.add(name, format.StringValue(string(format.AppendHex(digits[:0], id))))
}

func (b *builder) number(name string, n, absent uint32) {
	if n != absent {
		b.add(name, format.U64Value(uint64(n)))
	}
}

func (b *builder) time(name string, n int64) {
	if n < 0 {
		b.add(name, format.I64Value(n))
	} else {
		b.add(name, format.U64Value(uint64(n)))
	}
}

func (b *builder) users(prefix string, attrs []Attribute) {
	for i := range attrs {
		a := &attrs[i]
		name := prefix + a.Name
		if prefix == "" {
			name = format.EscapeName(name)
		}
		b.add(name, a.Value)
		switch a.Encoding {
		case JSON:
			b.jsons = append(b.jsons, name)
		case AnyValue:
			b.anys = append(b.anys, name)
		}
	}
}

func (b *builder) scope(s *Scope) {
	b.text(format.AttrScopeVersion, s.Version)
	b.text(format.AttrScopeSchemaURL, s.SchemaURL)
	b.users(format.AttrScopePrefix, s.Attributes)
	b.number(format.AttrScopeDropped, s.Dropped, 0)
}

// end adds the marks that attributes need.
func (b *builder) end() {
	if b.jsons != nil {
		b.add(format.AttrJSON, format.StringValue(string(jsontext.AppendStrings(nil, b.jsons))))
	}
	if b.anys != nil {
		b.add(format.AttrAnyValue, format.StringValue(string(jsontext.AppendStrings(nil, b.anys))))
	}
}

// code takes the place in the source from attributes that name it.
func code(md *format.Metadata, attrs []Attribute) {
	for i := range attrs {
		a := &attrs[i]
		switch a.Name {
		case "code.file.path":
			if a.Value.Kind() == format.KindString {
				md.File = format.Some(a.Value.Text())
			}
		case "code.line.number":
			if n, ok := a.Value.U64(); ok && n <= math.MaxUint32 {
				md.Line = format.Some(uint32(n))
			}
		case "code.function.name":
			if a.Value.Kind() == format.KindString {
				md.ModulePath = format.Some(source.Package(a.Value.Text()))
			}
		}
	}
}

// Where says what an entry's place says already, and so need not be said again.
type Where struct {
	Trace  bool // its parent is of the same trace
	Parent bool // its parent is the span that it names
}

// Entry returns the entry of s, without those of its links and events. The caller
// sets its parent, and w accordingly.
func (s *Span) Entry(w Where) *format.TraceEntry {
	e := new(format.TraceEntry)
	s.Fill(e, w)
	return e
}

// Fill is Entry into e, which it empties. It keeps the memory of e.Attributes, so
// that many entries can be made one after the other in the same.
func (s *Span) Fill(e *format.TraceEntry, w Where) {
	level := format.LevelInfo
	if s.Status == StatusError {
		level = format.LevelError
	}
	b := build(e, s.Name, s.Scope.Name, level)
	code(&b.e.Metadata, s.Attributes)
	if !w.Trace {
		b.id(format.AttrTraceID, s.TraceID[:])
	}
	b.hex(format.AttrSpanID, s.SpanID[:])
	if !w.Parent {
		b.id(format.AttrParentSpanID, s.Parent[:])
	}
	b.time(format.AttrTime, s.Start)
	if s.Ended {
		b.add(format.AttrDuration, format.U64Value(uint64(max(s.Duration, 0))))
		if s.Duration < 0 {
			b.add(format.AttrClockSkew, format.I64Value(s.Duration))
		}
	}
	if s.Kind != KindInternal {
		b.text(format.AttrKind, s.Kind.String())
	}
	switch s.Status {
	case StatusOK:
		b.text(format.AttrStatusCode, "OK")
	case StatusError:
		b.text(format.AttrStatusCode, "ERROR")
	}
	b.text(format.AttrStatusDescription, s.Description)
	b.number(format.AttrTraceFlags, s.Flags, format.DefaultTraceFlags)
	b.text(format.AttrTraceState, s.TraceState)
	b.scope(&s.Scope)
	b.users("", s.Attributes)
	b.number(format.AttrDroppedAttributes, s.DroppedAttributes, 0)
	b.number(format.AttrDroppedEvents, s.DroppedEvents, 0)
	b.number(format.AttrDroppedLinks, s.DroppedLinks, 0)
	if s.MadeIDs {
		b.add(AttrMadeIDs, format.BoolValue(true))
	}
	b.end()
}

// Entry returns the entry of a link of a span of that scope.
func (l *Link) Entry(scope string) *format.TraceEntry {
	e := new(format.TraceEntry)
	l.Fill(e, scope)
	return e
}

// Fill is Entry into e, which it empties. It keeps the memory of e.Attributes, so
// that many entries can be made one after the other in the same.
func (l *Link) Fill(e *format.TraceEntry, scope string) {
	b := build(e, format.NameLink, scope, format.LevelInfo)
	// Both are there in every case: they make the entry a link.
	b.hex(format.AttrLinkTraceID, l.TraceID[:])
	b.hex(format.AttrLinkSpanID, l.SpanID[:])
	b.number(format.AttrLinkFlags, l.Flags, format.DefaultTraceFlags)
	b.text(format.AttrLinkTraceState, l.TraceState)
	b.users("", l.Attributes)
	b.number(format.AttrDroppedAttributes, l.Dropped, 0)
	b.end()
}

// Entry returns the entry of an event of a span of that scope.
func (ev *Event) Entry(scope string) *format.TraceEntry {
	e := new(format.TraceEntry)
	ev.Fill(e, scope)
	return e
}

// Fill is Entry into e, which it empties. It keeps the memory of e.Attributes, so
// that many entries can be made one after the other in the same.
func (ev *Event) Fill(e *format.TraceEntry, scope string) {
	level := format.LevelInfo
	if ev.Name == "exception" {
		level = format.LevelError
	}
	b := build(e, ev.Name, scope, level)
	b.add(format.AttrEvent, format.BoolValue(true))
	if ev.HasTime {
		b.time(format.AttrTime, ev.Time)
	}
	b.users("", ev.Attributes)
	b.number(format.AttrDroppedAttributes, ev.Dropped, 0)
	b.end()
}

// plainSeverityTexts are those that a level implies.
var plainSeverityTexts = map[format.Level]string{
	format.LevelTrace: "TRACE", format.LevelDebug: "DEBUG", format.LevelInfo: "INFO", format.LevelWarn: "WARN", format.LevelError: "ERROR",
}

// Entry returns the entry of a log record. The caller sets its parent, and w
// accordingly: Parent means that it is below its span.
func (l *Log) Entry(w Where) *format.TraceEntry {
	e := new(format.TraceEntry)
	l.Fill(e, w)
	return e
}

// Fill is Entry into e, which it empties. It keeps the memory of e.Attributes, so
// that many entries can be made one after the other in the same.
func (l *Log) Fill(e *format.TraceEntry, w Where) {
	level := LevelOf(l.Severity)
	name := "event"
	b := build(e, name, l.Scope.Name, level)
	md := &b.e.Metadata
	code(md, l.Attributes)
	if md.File.Valid {
		md.Name += " " + path.Base(md.File.Value)
		if md.Line.Valid {
			md.Name += ":" + strconv.FormatUint(uint64(md.Line.Value), 10)
		}
	}
	message := ""
	if l.Body.Kind == String {
		message = l.Body.Text
	} else if l.Body.Kind != Empty {
		message = l.Body.Display()
	}
	b.e.Message = format.Some(message)
	if !w.Parent {
		if !w.Trace {
			b.id(format.AttrTraceID, l.TraceID[:])
		}
		b.id(format.AttrSpanID, l.SpanID[:])
	}
	if l.HasTime {
		b.time(format.AttrTime, l.Time)
	}
	if l.Observed != l.defaultObserved() {
		b.time(AttrObserved, l.Observed) // 0 says that there is none
	}
	b.number(AttrSeverityNumber, l.Severity, SeverityOf(level))
	if l.SeverityText != plainSeverityTexts[level] {
		b.add(AttrSeverityText, format.StringValue(l.SeverityText)) // that there is none, too
	}
	if l.Body.Kind != String {
		b.add(AttrBody, format.StringValue(string(AppendAnyValue(nil, &l.Body))))
	}
	b.text(AttrEventName, l.EventName)
	b.number(format.AttrTraceFlags, l.Flags, l.defaultFlags())
	b.scope(&l.Scope)
	b.users("", l.Attributes)
	b.number(format.AttrDroppedAttributes, l.Dropped, 0)
	b.end()
}

// Entry returns the entry of a resource, which goes below the root.
func (r *Resource) Entry() *format.TraceEntry {
	e := new(format.TraceEntry)
	r.Fill(e)
	return e
}

// Fill is Entry into e, which it empties. It keeps the memory of e.Attributes, so
// that many entries can be made one after the other in the same.
func (r *Resource) Fill(e *format.TraceEntry) {
	b := build(e, format.NameResource, "", format.LevelInfo)
	if s := r.Service(); s != "" {
		b.e.Message = format.Some(s)
	}
	b.users("", r.Attributes)
	b.text(format.AttrSchemaURL, r.SchemaURL)
	b.number(format.AttrDroppedAttributes, r.Dropped, 0)
	b.end()
}
