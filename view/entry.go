package view

import (
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"slices"
	"strings"

	"github.com/entrace-go/entrace/format"
	"github.com/entrace-go/entrace/internal/core/entrybytes"
	"github.com/entrace-go/entrace/internal/core/mapping"
	"github.com/entrace-go/entrace/internal/text/jsontext"
)

// Entry returns the entry of row r as the view shows it. The caller owns the entry. Its Parent is a row number.
// The entry of a span includes the values of the span's end, and the trace id. It has the id of its parent span
// only if that span is not in the view. The entry of a log record has the ids of its span.
func (v *View) Entry(r Row) (*format.TraceEntry, error) { return v.NewReader().Entry(r) }

// A Reader reads entries like [View.Entry], but reuses the memory of the entry. It is not safe for concurrent use.
type Reader struct {
	v          *View
	raw, later entrybytes.Window
	entry, end format.TraceEntry
	ids        []idOfSpan // span ids that Ref has read; row r is at index r modulo the length
}

type idOfSpan struct {
	row Row
	id  [8]byte
}

// NewReader returns a Reader of v.
func (v *View) NewReader() *Reader { return &Reader{v: v} }

// Metadata returns the metadata that [View.Entry] returns for row r, usually without reading the entry.
func (v *View) Metadata(r Row) format.Metadata {
	if n := v.meta(r); n != unknown {
		m := v.metas[n]
		m.Level = v.flags(r).Level()
		return m
	}
	e, err := v.Entry(r)
	if err != nil {
		return format.Metadata{}
	}
	return e.Metadata
}

// Name returns the name of row r: the name of the span or event, or for another row the name of its entry.
func (v *View) Name(r Row) string {
	if n := v.meta(r); n != unknown {
		return v.metas[n].Name
	}
	return v.NewReader().Name(r)
}

// Message returns the message of row r. It returns false if the row has no message.
func (v *View) Message(r Row) (string, bool) {
	if !v.flags(r).HasMessage() {
		return "", false
	}
	if n := v.text(r); n != unknownText {
		return v.messages[n], true
	}
	e, err := v.fileOf(r).file.Entry(v.id(r))
	if err != nil {
		return "", false
	}
	return e.Message.Value, e.Message.Valid
}

// Service returns the service to which row r belongs, or "" if the resource of r does not name a service.
func (v *View) Service(r Row) string {
	if n := v.resource(r); n != unknown {
		return v.resources[n].service
	}
	e, err := v.Entry(v.Resource(r))
	if err != nil {
		return ""
	}
	return serviceIn(e)
}

// Name is like [View.Name].
func (rd *Reader) Name(r Row) string {
	if n := rd.v.meta(r); n != unknown {
		return rd.v.metas[n].Name
	}
	e, err := rd.WithoutIDs(r)
	if err != nil {
		return ""
	}
	return strings.Clone(e.Metadata.Name)
}

// Ref is like [View.Ref], but caches the ids of recent spans. The cache needs a megabyte of memory.
func (rd *Reader) Ref(r Row) format.SpanRef {
	if rd.ids == nil {
		rd.ids = make([]idOfSpan, 1<<16)
	}
	owner := rd.v.Owner(r)
	known := &rd.ids[int(owner)%len(rd.ids)]
	if known.row != owner {
		known.row, known.id = owner, rd.v.Ref(owner).SpanID
	}
	return format.SpanRef{TraceID: rd.v.TraceID(r), SpanID: known.id}
}

// Entry returns the entry of row r, which is valid until the next call of a method.
func (rd *Reader) Entry(r Row) (*format.TraceEntry, error) {
	e, err := rd.WithoutIDs(r)
	if err != nil {
		return nil, err
	}
	v, role, parent := rd.v, rd.v.Role(r), rd.v.parent(r)
	if role != RoleSpan && role != RoleLog {
		return e, nil
	}
	trace := v.TraceID(r)
	if role == RoleSpan && v.Role(parent) == RoleSpan && v.trace(parent) == v.trace(r) {
		// The parent is in the view: its row number replaces the span id of the parent.
		if up, ok := e.Attribute(format.AttrParentSpanID); ok {
			id, err := v.attributeID(parent, format.AttrSpanID)
			if err != nil {
				return nil, err
			}
			if up.Text() == hex.EncodeToString(id[:]) {
				e.Attributes = slices.DeleteFunc(e.Attributes, func(a format.Attribute) bool {
					return a.Name == format.AttrParentSpanID && a.Value.Text() == up.Text()
				})
			}
		}
	}
	addMissing(e, format.AttrTraceID, trace[:])
	if _, has := e.Attribute(format.AttrSpanID); role == RoleLog && !has {
		ref := v.Ref(r)
		addMissing(e, format.AttrSpanID, ref.SpanID[:])
	}
	if v.fileOf(r).file.Version() == format.V2 {
		format.SortAttributes(e.Attributes)
	}
	return e, nil
}

// WithoutIDs is like Entry, but leaves the ids of traces and spans as they are stored. It is faster than Entry. The
// entry is valid until the next call.
func (rd *Reader) WithoutIDs(r Row) (*format.TraceEntry, error) {
	v, e := rd.v, &rd.entry
	if err := read(&rd.raw, v.fileOf(r).source, v.id(r), e); err != nil {
		return nil, err
	}
	if from, id := v.endOf(r); id != 0 {
		if err := read(&rd.later, v.fileOf(from).source, id, &rd.end); err != nil {
			return nil, err
		}
		fold(e, &rd.end)
		if v.fileOf(r).file.Version() == format.V2 {
			format.SortAttributes(e.Attributes)
		}
	}
	e.Parent = uint32(v.parent(r))
	v.Correct(r, e)
	return e, nil
}

func read(w *entrybytes.Window, s *source, id uint32, e *format.TraceEntry) error {
	b, err := w.Entry(s.entries, id)
	if err != nil {
		return err
	}
	return s.file.DecodeRaw(b, id, e)
}

// Correct sets the time of e, the stored entry of row r, to the corrected time of the row.
func (v *View) Correct(r Row, e *format.TraceEntry) {
	if v.builder.options.Clock == nil || v.start(r) == noTime {
		return
	}
	for i := range e.Attributes {
		if e.Attributes[i].Name == format.AttrTime {
			e.Attributes[i].Value = format.I64Value(v.start(r))
			if v.start(r) >= 0 {
				e.Attributes[i].Value = format.U64Value(uint64(v.start(r)))
			}
			return
		}
	}
}

// Ref returns the trace id of row r and the span id of its [View.Owner].
func (v *View) Ref(r Row) format.SpanRef {
	ref := format.SpanRef{TraceID: v.TraceID(r)}
	if owner := v.Owner(r); owner != 0 {
		ref.SpanID, _ = v.attributeID(owner, format.AttrSpanID)
	}
	return ref
}

// attributeID parses an attribute of row r as a span id.
func (v *View) attributeID(r Row, name string) (id [8]byte, err error) {
	n, err := v.fileOf(r).attributeID(v.id(r), name)
	binary.BigEndian.PutUint64(id[:], n)
	return id, err
}

// Span returns the row of the span with the given ids, and whether the view has it. If several spans have these
// ids, it returns the first one.
func (v *View) Span(ref format.SpanRef) (Row, bool) {
	low := binary.BigEndian.Uint32(ref.SpanID[4:])
	for k, b := range v.blocks {
		n := min(v.n-uint32(k)*blockRows, blockRows)
		for i, text := range b.text[:n] {
			r := Row(k*blockRows + i)
			if text != low || v.flags(r).Role() != RoleSpan || v.traces.at(b.trace[i]) != ref.TraceID {
				continue
			}
			if id, err := v.attributeID(r, format.AttrSpanID); err == nil && id == ref.SpanID {
				return r, true
			}
		}
	}
	return 0, false
}

// Missing returns the ids of the span that row r names as its parent, if the view does not have this span. A log
// record names the span in which it was logged. The result missing is false if row r names no span, or the view has the span.
func (v *View) Missing(r Row) (ref format.SpanRef, missing bool, err error) {
	if !v.flags(r).Missing() {
		return ref, false, nil
	}
	name := format.AttrParentSpanID
	if v.Role(r) == RoleLog {
		name = format.AttrSpanID
	}
	ref.TraceID = v.TraceID(r)
	ref.SpanID, err = v.attributeID(r, name)
	return ref, ref.IsValid(), err
}

func addMissing(e *format.TraceEntry, name string, id []byte) {
	if _, has := e.Attribute(name); !has && slices.ContainsFunc(id, func(c byte) bool { return c != 0 }) {
		e.Add(name, format.StringValue(hex.EncodeToString(id)))
	}
}

// statusError is the stored status code of a span that failed.
const statusError = "ERROR"

// fold updates the span e with the values of its end.
func fold(e, end *format.TraceEntry) {
	if end.Message.Valid {
		e.Metadata.Name = end.Message.Value
	}
	if status, ok := end.Attribute(mapping.AttrStatusCode); ok {
		// The new status replaces the whole earlier status, including its description.
		if status.Text() != statusError {
			e.Metadata.Level = format.LevelInfo
		}
		e.Attributes = slices.DeleteFunc(e.Attributes, func(a format.Attribute) bool { return a.Name == mapping.AttrStatusDescription })
	}
	if end.Metadata.Level == format.LevelError {
		e.Metadata.Level = format.LevelError
	}
	setPlace(&e.Metadata, &end.Metadata)
	foldAttributes(e, end)
}

// foldAttributes adds the attributes of end to e. An attribute of end replaces the attribute of e with the same name.
func foldAttributes(e, end *format.TraceEntry) {
	marks := marksOf(e, end)
	first := newFirsts(e.Attributes, len(end.Attributes))
	e.Attributes = slices.Grow(e.Attributes, len(end.Attributes)+len(marks))
	for _, a := range end.Attributes {
		if a.Name == format.AttrSpanID || isMark(a) {
			continue
		}
		if i := first.of(e.Attributes, a.Name); i >= 0 {
			e.Attributes[i].Value = a.Value
		} else {
			first.add(a.Name, len(e.Attributes))
			e.Attributes = append(e.Attributes, a)
		}
	}
	if len(marks) > 0 || slices.ContainsFunc(e.Attributes, isMark) {
		e.Attributes = append(slices.DeleteFunc(e.Attributes, isMark), marks...)
	}
}

// marksOf returns the marks of a span's attributes: attributes that list the names of other attributes. If the end
// has an attribute, the marks of the end apply to it.
func marksOf(e, end *format.TraceEntry) (marks []format.Attribute) {
	if !slices.ContainsFunc(e.Attributes, isMark) && !slices.ContainsFunc(end.Attributes, isMark) {
		return nil
	}
	for _, mark := range marksOfNames {
		old, has := e.Attribute(mark)
		now, hasNow := end.Attribute(mark)
		if !has && !hasNow {
			continue
		}
		names := markedNames(old)
		if len(names) > 0 {
			later := make(map[string]bool, len(end.Attributes))
			for i := range end.Attributes {
				later[end.Attributes[i].Name] = true
			}
			names = slices.DeleteFunc(names, func(s string) bool { return later[s] })
		}
		names = append(names, markedNames(now)...)
		if len(names) > 0 {
			marks = append(marks, format.Attribute{Name: mark, Value: format.StringValue(string(jsontext.AppendStrings(nil, names)))})
		}
	}
	return marks
}

func isMark(a format.Attribute) bool { return slices.Contains(marksOfNames, a.Name) }

// firsts maps each name to the index of its first attribute. It is nil for short lists, because a linear search of a
// short list is faster.
type firsts map[string]int

func newFirsts(list []format.Attribute, more int) firsts {
	if len(list) < 16 || more < 2 {
		return nil
	}
	f := make(firsts, len(list)+more)
	for i, a := range slices.Backward(list) {
		f[a.Name] = i
	}
	return f
}

// of returns the index of the first attribute with the given name, or -1 if there is none.
func (f firsts) of(list []format.Attribute, name string) int {
	if f != nil {
		if i, ok := f[name]; ok {
			return i
		}
		return -1
	}
	for i := range list {
		if list[i].Name == name {
			return i
		}
	}
	return -1
}

func (f firsts) add(name string, i int) {
	if f != nil {
		f[name] = i
	}
}

// marksOfNames are the attributes whose values are lists of the names of other attributes.
var marksOfNames = []string{mapping.AttrJSON, mapping.AttrAnyValue, mapping.AttrDurations}

func markedNames(v format.Value) []string {
	var names []string
	if v.Kind() > format.KindBytes || json.Unmarshal([]byte(v.Text()), &names) != nil {
		return nil
	}
	return names
}
