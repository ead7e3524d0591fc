package otel

import (
	"math"
	"path"
	"strconv"
	"time"

	"github.com/entrace-go/entrace/format"
	"github.com/entrace-go/entrace/internal/core/mapping"
	"github.com/entrace-go/entrace/internal/core/wire"
	"github.com/entrace-go/entrace/internal/text/jsontext"
)

// A Writer builds an entry, attribute by attribute. It is an [Entry], or the inside of a batch of package recorder.
type Writer interface {
	Begin(message format.Optional[string], m *format.Metadata)
	ID(name string, id []byte)
	U64(name string, n uint64)
	I64(name string, n int64)
	Bool(name string, v bool)
	String(name, s string)
	Bytes(name string, b []byte)
	Float(name string, f float64)
	Value(name string, v *format.Value)
	JSON(name, text string)
	AnyValue(name, text string)
	Duration(name string, d time.Duration)
	// User says that the following attributes are the application's.
	User()
	End()
}

var _ Writer = (*Entry)(nil)

// Users is a list of the application's attributes.
type Users interface {
	Len() int
	Name(i int) string
	// Native returns the value of attribute i. ok is false if the value has none of the format's kinds.
	Native(i int) (format.Value, bool)
	// Write adds all attributes to w, with prefix before their names.
	Write(w Writer, prefix string)
}

// Attributes are the application's attributes, as read from an entry or another format.
type Attributes []Attribute

// Add adds an attribute.
func (a *Attributes) Add(name string, v format.Value) {
	*a = append(*a, Attribute{Name: name, Value: v})
}

// Len implements Users.
func (a *Attributes) Len() int { return len(*a) }

// Name implements Users.
func (a *Attributes) Name(i int) string { return (*a)[i].Name }

// Native implements Users.
func (a *Attributes) Native(i int) (format.Value, bool) {
	return (*a)[i].Value, (*a)[i].Encoding == Native
}

// Write implements Users.
func (a *Attributes) Write(w Writer, prefix string) {
	var copied *Attribute
	for i := range *a {
		b := &(*a)[i]
		if prefix != "" {
			if copied == nil { // make the copy only if it is needed, and only once, because passing it to w makes it escape
				copied = new(Attribute)
			}
			*copied = Attribute{prefix + b.Name, b.Value, b.Encoding}
			b = copied
		}
		b.Write(w)
	}
}

// Write adds a to w.
func (a *Attribute) Write(w Writer) {
	switch a.Encoding {
	case JSON:
		w.JSON(a.Name, a.Value.Text())
	case AnyValue:
		w.AnyValue(a.Name, a.Value.Text())
	case Duration:
		n, _ := a.Value.I64() // a Duration is always an I64
		w.Duration(a.Name, time.Duration(n))
	default:
		w.Value(a.Name, &a.Value)
	}
}

// An Entry is a Writer that builds a [format.TraceEntry].
type Entry struct {
	E *format.TraceEntry

	user              bool
	jsons, anys, durs []string
	digits            []byte // of the ids
}

// Begin implements Writer. It reuses the memory of the entry before.
func (b *Entry) Begin(message format.Optional[string], m *format.Metadata) {
	*b = Entry{E: b.E, digits: b.digits[:0]}
	*b.E = format.TraceEntry{Message: message, Metadata: *m, Attributes: b.E.Attributes[:0]}
}

// Value implements Writer.
func (b *Entry) Value(name string, v *format.Value) { b.add(name, *v) }

func (b *Entry) add(name string, v format.Value) string {
	if b.user {
		name = mapping.EscapeName(name)
	}
	b.E.Add(name, v)
	return name
}

// ID implements Writer.
func (b *Entry) ID(name string, id []byte) {
	had := len(b.digits)
	b.digits = wire.AppendHex(b.digits, id)
	b.add(name, format.StringValue(wire.View(b.digits[had:])))
}

// U64 implements Writer.
func (b *Entry) U64(name string, n uint64) { b.add(name, format.U64Value(n)) }

// I64 implements Writer.
func (b *Entry) I64(name string, n int64) { b.add(name, format.I64Value(n)) }

// Bool implements Writer.
func (b *Entry) Bool(name string, v bool) { b.add(name, format.BoolValue(v)) }

// Float implements Writer.
func (b *Entry) Float(name string, f float64) { b.add(name, format.FloatValue(f)) }

// String implements Writer.
func (b *Entry) String(name, s string) { b.add(name, format.StringValue(s)) }

// Bytes implements Writer.
func (b *Entry) Bytes(name string, v []byte) { b.add(name, format.BytesValue(v)) }

// JSON implements Writer.
func (b *Entry) JSON(name, text string) {
	b.jsons = append(b.jsons, b.add(name, format.StringValue(text)))
}

// AnyValue implements Writer.
func (b *Entry) AnyValue(name, text string) {
	b.anys = append(b.anys, b.add(name, format.StringValue(text)))
}

// Duration implements Writer.
func (b *Entry) Duration(name string, d time.Duration) {
	b.durs = append(b.durs, b.add(name, format.I64Value(int64(d))))
}

// User implements Writer.
func (b *Entry) User() { b.user = true }

// End implements Writer.
func (b *Entry) End() {
	b.user = false
	b.names(mapping.AttrJSON, b.jsons)
	b.names(mapping.AttrAnyValue, b.anys)
	b.names(mapping.AttrDurations, b.durs)
}

func (b *Entry) names(name string, list []string) {
	if list != nil {
		b.String(name, string(jsontext.AppendStrings(nil, list)))
	}
}

func text(w Writer, name, s string) {
	if s != "" {
		w.String(name, s)
	}
}

func number(w Writer, name string, n, absent uint32) {
	if n != absent {
		w.U64(name, uint64(n))
	}
}

func unixNano(w Writer, name string, n int64) {
	if n < 0 {
		w.I64(name, n)
	} else {
		w.U64(name, uint64(n))
	}
}

func users(w Writer, u Users) {
	w.User()
	if u.Len() > 0 {
		u.Write(w, "")
	}
}

func (s *Scope) write(w Writer) {
	text(w, mapping.AttrScopeVersion, s.Version)
	text(w, AttrScopeSchemaURL, s.SchemaURL)
	s.Attributes.Write(w, mapping.AttrScopePrefix)
	number(w, AttrScopeDropped, s.Dropped, 0)
}

// code sets the source position in md if u has attributes with it.
func code(md *format.Metadata, u Users) {
	for i := range u.Len() {
		name := u.Name(i)
		if len(name) < len("code.") || name[:5] != "code." {
			continue
		}
		v, ok := u.Native(i)
		if !ok {
			continue
		}
		switch name {
		case "code.file.path":
			if v.Kind() == format.KindString {
				md.File = format.Some(v.Text())
			}
		case "code.line.number":
			if n, ok := v.U64(); ok && n <= math.MaxUint32 {
				md.Line = format.Some(uint32(n))
			}
		case "code.function.name":
			if v.Kind() == format.KindString {
				md.ModulePath = format.Some(mapping.Package(v.Text()))
			}
		}
	}
}

// A Where describes the parent of an entry. Ids that the parent implies are not stored in the entry.
type Where struct {
	Trace  bool // the parent has the same trace id
	Parent bool // the parent is the parent span of a span, or the span of a log record
}

// Write writes the entry of s with the attributes u, but not the links and events. The parameter at must describe
// the parent below which the caller writes the entry.
func (s *Span) Write(w Writer, at Where, u Users) {
	md := &s.Metadata
	*md = format.Metadata{Name: s.Name, Target: s.Scope.Name, Level: format.LevelInfo}
	if s.Status == StatusError {
		md.Level = format.LevelError
	}
	code(md, u)
	w.Begin(format.Optional[string]{}, md)
	if !at.Trace && s.TraceID != [16]byte{} {
		w.ID(format.AttrTraceID, s.TraceID[:])
	}
	w.ID(format.AttrSpanID, s.SpanID[:])
	if !at.Parent && s.Parent != [8]byte{} {
		w.ID(format.AttrParentSpanID, s.Parent[:])
	}
	unixNano(w, format.AttrTime, s.Start)
	text(w, mapping.AttrTime, s.ExactStart)
	s.duration(w)
	if s.Kind != KindInternal {
		w.String(mapping.AttrKind, s.Kind.String())
	}
	s.status(w)
	number(w, mapping.AttrTraceFlags, s.Flags, mapping.DefaultTraceFlags)
	text(w, AttrTraceState, s.TraceState)
	s.Scope.write(w)
	s.dropped(w)
	if s.MadeIDs {
		w.Bool(AttrMadeIDs, true)
	}
	if s.Unmarked && !s.Ended {
		w.Bool(AttrOpen, false)
	}
	users(w, u)
	w.End()
}

// WriteEnd writes the entry for the end of s. The caller writes it below the entry that was written when s began. u
// has only the attributes that are new or have changed since the beginning. If renamed is set, the entry also has the
// name of s.
func (s *Span) WriteEnd(w Writer, renamed bool, u Users) {
	md := &s.Metadata
	*md = format.Metadata{Name: format.NameSpanEnd, Target: s.Scope.Name, Level: format.LevelTrace}
	if s.Status == StatusError {
		md.Level = format.LevelError
	}
	code(md, u)
	var message format.Optional[string]
	if renamed {
		message = format.Some(s.Name)
	}
	w.Begin(message, md)
	w.ID(format.AttrSpanID, s.SpanID[:])
	s.duration(w)
	s.status(w)
	s.dropped(w)
	users(w, u)
	w.End()
}

func (s *Span) duration(w Writer) {
	if !s.Ended {
		return
	}
	w.U64(format.AttrDuration, uint64(max(s.Duration, 0)))
	if s.Duration < 0 {
		w.I64(mapping.AttrClockSkew, s.Duration)
	}
}

func (s *Span) status(w Writer) {
	switch s.Status {
	case StatusOK:
		w.String(mapping.AttrStatusCode, "OK")
	case StatusError:
		w.String(mapping.AttrStatusCode, "ERROR")
	}
	text(w, mapping.AttrStatusDescription, s.Description)
}

func (s *Span) dropped(w Writer) {
	number(w, mapping.AttrDroppedAttributes, s.DroppedAttributes, 0)
	number(w, mapping.AttrDroppedEvents, s.DroppedEvents, 0)
	number(w, mapping.AttrDroppedLinks, s.DroppedLinks, 0)
}

// Fill is like Write, but writes to e. It replaces the content of e, and reuses the slice e.Attributes.
func (s *Span) Fill(e *format.TraceEntry, at Where) { s.Write(&Entry{E: e}, at, &s.Attributes) }

// Each calls fn with the entry of s, as Write writes it, and then with the entries of its links and events. It stops
// at the first error. Each passes e for all entries and replaces the content of e.
func (s *Span) Each(e *format.TraceEntry, at Where, fn func(e *format.TraceEntry) error) error {
	s.Fill(e, at)
	err := fn(e)
	for i := 0; i < len(s.Links) && err == nil; i++ {
		s.Links[i].Fill(e, s.Scope.Name)
		err = fn(e)
	}
	for i := 0; i < len(s.Events) && err == nil; i++ {
		s.Events[i].Fill(e, s.Scope.Name)
		err = fn(e)
	}
	return err
}

// Write writes the entry of l with the attributes u. The parameter scope is the name of the span's scope.
func (l *Link) Write(w Writer, scope string, u Users) {
	l.Metadata = format.Metadata{Name: mapping.NameLink, Target: scope, Level: format.LevelInfo}
	w.Begin(format.Optional[string]{}, &l.Metadata)
	// Always write both ids: without them, the entry is not a link.
	w.ID(mapping.AttrLinkTraceID, l.TraceID[:])
	w.ID(mapping.AttrLinkSpanID, l.SpanID[:])
	number(w, AttrLinkFlags, l.Flags, mapping.DefaultTraceFlags)
	text(w, AttrLinkTraceState, l.TraceState)
	number(w, mapping.AttrDroppedAttributes, l.Dropped, 0)
	users(w, u)
	w.End()
}

// Fill is like Write, but writes to e. It replaces the content of e, and reuses the slice e.Attributes.
func (l *Link) Fill(e *format.TraceEntry, scope string) { l.Write(&Entry{E: e}, scope, &l.Attributes) }

// Write writes the entry of ev with the attributes u. The parameter scope is the name of the span's scope.
func (ev *Event) Write(w Writer, scope string, u Users) {
	ev.Metadata = format.Metadata{Name: ev.Name, Target: scope, Level: format.LevelInfo}
	if ev.Name == mapping.NameException {
		ev.Metadata.Level = format.LevelError
	}
	w.Begin(format.Optional[string]{}, &ev.Metadata)
	w.Bool(mapping.AttrEvent, true)
	if ev.HasTime {
		unixNano(w, format.AttrTime, ev.Time)
		text(w, mapping.AttrTime, ev.ExactTime)
	}
	number(w, mapping.AttrDroppedAttributes, ev.Dropped, 0)
	users(w, u)
	w.End()
}

// Fill is like Write, but writes to e. It replaces the content of e, and reuses the slice e.Attributes.
func (ev *Event) Fill(e *format.TraceEntry, scope string) {
	ev.Write(&Entry{E: e}, scope, &ev.Attributes)
}

// Write writes the entry of l with the attributes u. The parameter at must describe the parent below which the caller
// writes the entry; at.Parent means that this parent is the span of l. The source position comes from u, or else from
// l.Metadata.
func (l *Log) Write(w Writer, at Where, u Users) {
	level := LevelOf(l.Severity)
	if l.Severity == 0 {
		n, _ := SeverityNamed(l.SeverityText)
		level = LevelOf(n)
	}
	md := &l.Metadata
	*md = format.Metadata{Name: "event", Target: l.Scope.Name, Level: level, File: md.File, Line: md.Line}
	code(md, u)
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
	w.Begin(format.Some(message), md)
	if !at.Parent {
		if !at.Trace && l.TraceID != [16]byte{} {
			w.ID(format.AttrTraceID, l.TraceID[:])
		}
		if l.SpanID != [8]byte{} {
			w.ID(format.AttrSpanID, l.SpanID[:])
		}
	}
	if l.HasTime {
		unixNano(w, format.AttrTime, l.Time)
		text(w, mapping.AttrTime, l.ExactTime)
	}
	if l.Observed != l.defaultObserved() {
		unixNano(w, AttrObserved, l.Observed) // 0 means that there is none
	}
	number(w, AttrSeverityNumber, l.Severity, SeverityOf(level))
	if l.SeverityText != level.String() { // otherwise the text follows from the level
		w.String(AttrSeverityText, l.SeverityText) // even if it is empty
	}
	if l.Body.Kind != String {
		w.String(AttrBody, string(AppendAnyValue(nil, &l.Body)))
	}
	text(w, AttrEventName, l.EventName)
	if l.Failed {
		w.String(mapping.AttrStatusCode, "ERROR")
	}
	number(w, mapping.AttrTraceFlags, l.Flags, l.defaultFlags())
	l.Scope.write(w)
	number(w, mapping.AttrDroppedAttributes, l.Dropped, 0)
	users(w, u)
	w.End()
}

// Fill is like Write, but writes to e. It replaces the content of e, and reuses the slice e.Attributes.
func (l *Log) Fill(e *format.TraceEntry, at Where) { l.Write(&Entry{E: e}, at, &l.Attributes) }

// Entry returns the entry of a resource. Its parent is the root.
func (r *Resource) Entry() *format.TraceEntry {
	w := Entry{E: new(format.TraceEntry)}
	var message format.Optional[string]
	if s := r.Service(); s != "" {
		message = format.Some(s)
	}
	w.Begin(message, &format.Metadata{Name: format.NameResource, Level: format.LevelInfo})
	users(&w, &r.Attributes)
	w.user = false
	text(&w, AttrSchemaURL, r.SchemaURL)
	number(&w, mapping.AttrDroppedAttributes, r.Dropped, 0)
	w.End()
	return w.E
}
