package timeline

import (
	"encoding/hex"
	"strings"
	"time"

	"github.com/entrace-go/entrace/format"
	"github.com/entrace-go/entrace/internal/core/mapping"
	"github.com/entrace-go/entrace/internal/otel"
	"github.com/entrace-go/entrace/internal/text"
	"github.com/entrace-go/entrace/view"
)

// Details holds the content of an entry as names and values.
type Details struct {
	// Name is the name of a span or event. For a log record, Name is the message, or if the message is empty, the
	// name of the entry.
	Name string
	// Category is the kind of a span, or "event", "log" or "entry" for another entry.
	Category string
	// Role is the role of the entry in the view.
	Role view.Role
	// TraceID is the trace id of the span or log record in hex, or "" if the entry has none.
	TraceID string
	// Args has the other fields of the entry in this order: trace_id, span_id and parent_span_id; for a span kind,
	// status and scope; for another entry level, file, line, module_path and message; then the attributes by their
	// stored names. If an attribute has one of the preceding names, it is called otel.attr.NAME. The second
	// attribute with the same name is called NAME#2.
	Args otel.Attributes
	// Links has the links of a span, as a List of Maps with at most 1,000 links. The argument
	// entrace.links_left_out has the number of omitted links.
	Links otel.Any

	timed, open bool
	owns        int // the number of Args that precede the attributes
	jsons, anys map[string]bool
	names       text.Names // the names of the attributes
}

func (d *Details) add(name, value string) {
	if value != "" {
		d.Args.Add(name, format.StringValue(value))
	}
}

// Details reads row r into d, and reuses the memory of d. It is safe for concurrent use if each call has a
// different d.
func (t *Timeline) Details(r view.Row, d *Details) error {
	v := t.v
	e, err := v.NewReader().WithoutIDs(r)
	if err != nil {
		return err
	}
	d.names.Reset()
	*d = Details{Args: d.Args[:0], names: d.names, Name: e.Metadata.Name, Role: v.Role(r), Category: "entry"}
	_, d.timed = v.Time(r)
	if id := v.TraceID(r); id != [16]byte{} {
		d.TraceID = hex.EncodeToString(id[:])
		d.add(format.AttrTraceID, d.TraceID)
	}
	if id, ok := e.Attribute(format.AttrSpanID); ok && d.Role == view.RoleSpan {
		d.add(format.AttrSpanID, strings.ToLower(id.Text()))
	} else if ref := v.Ref(r); ref.SpanID != [8]byte{} {
		d.add(format.AttrSpanID, hex.EncodeToString(ref.SpanID[:]))
	}
	switch d.Role {
	case view.RoleSpan:
		d.span(v, e)
		if t.links { // otherwise avoid making the tree, which only the children need
			if err := d.links(v, r); err != nil {
				return err
			}
		}
	case view.RoleEvent:
		d.Category = "event"
	case view.RoleLog:
		d.Category = "log"
		if e.Message.Value != "" {
			d.Name = e.Message.Value
		}
	default:
		d.add("message", e.Message.Value)
	}
	d.add("scope", e.Metadata.Target)
	if d.Role != view.RoleSpan {
		d.addSource(&e.Metadata)
	}
	d.attributes(e)
	return nil
}

// span adds the arguments that only spans have.
func (d *Details) span(v *view.View, e *format.TraceEntry) {
	if up, ok := e.Attribute(format.AttrParentSpanID); ok {
		d.add(format.AttrParentSpanID, up.Text())
	} else if up := v.Ref(view.Row(e.Parent)); up.SpanID != [8]byte{} {
		d.add(format.AttrParentSpanID, hex.EncodeToString(up.SpanID[:]))
	}
	kind := otel.KindInternal
	if name, ok := e.Attribute(mapping.AttrKind); ok {
		if k, ok := otel.ParseSpanKind(name.Text()); ok {
			kind = k
		}
	}
	d.Category = kind.String()
	d.add("kind", d.Category)
	if status, ok := e.Attribute(mapping.AttrStatusCode); ok {
		d.add("status", status.Text())
	}
	took, _ := e.Attribute(format.AttrDuration)
	if _, ended := took.U64(); !ended {
		d.open = true
		d.Args.Add(otel.AttrOpen, format.BoolValue(true))
	}
}

// addSource adds the source location and the level of an entry.
func (d *Details) addSource(m *format.Metadata) {
	if d.Role != view.RoleEvent {
		d.add("level", m.Level.String())
	}
	d.add("file", m.File.Value)
	if m.Line.Valid {
		d.Args.Add("line", format.U64Value(uint64(m.Line.Value)))
	}
	d.add("module_path", m.ModulePath.Value)
}

// attributes adds the attributes of the entry.
func (d *Details) attributes(e *format.TraceEntry) {
	var durs map[string]bool
	for i := range e.Attributes {
		switch a := &e.Attributes[i]; a.Name {
		case mapping.AttrJSON:
			d.jsons = otel.Names(a.Value)
		case mapping.AttrAnyValue:
			d.anys = otel.Names(a.Value)
		case mapping.AttrDurations:
			durs = otel.Names(a.Value)
		}
	}
	d.owns = len(d.Args)
	for i := range e.Attributes {
		a := &e.Attributes[i]
		name := a.Name
		switch name {
		case mapping.AttrJSON, mapping.AttrAnyValue, mapping.AttrDurations:
			continue
		case format.AttrTime:
			if d.timed {
				continue
			}
		case format.AttrTraceID, format.AttrSpanID, format.AttrParentSpanID:
			if text, ok := d.argument(name); ok && text == a.Value.Text() {
				continue
			} else if ok {
				name = "otel.attr." + name
			}
		case mapping.AttrKind:
			if d.Role == view.RoleSpan && a.Value.Text() == d.Category {
				continue
			}
		case format.AttrDuration:
			if d.Role == view.RoleSpan && !d.open {
				continue
			}
		case mapping.AttrStatusCode, otel.AttrOpen:
			if d.Role == view.RoleSpan {
				continue
			}
		case mapping.AttrEvent:
			if d.Role == view.RoleEvent {
				continue
			}
		case "kind", "status", "scope", "level", "file", "line", "module_path", "message", "links":
			name = "otel.attr." + name
		}
		encoding, value := otel.Native, a.Value
		switch {
		case durs[a.Name]:
			if n, ok := value.I64(); ok {
				value = format.StringValue(time.Duration(n).String())
			}
		case d.jsons[a.Name]:
			encoding = otel.JSON
		case d.anys[a.Name]:
			encoding = otel.AnyValue
		}
		d.Args = append(d.Args, otel.Attribute{Name: d.names.Add(name), Value: value, Encoding: encoding})
	}
}

// argument returns the value of the argument called name, if it is not an attribute.
func (d *Details) argument(name string) (string, bool) {
	for i := range d.Args[:d.owns] {
		if d.Args[i].Name == name {
			return d.Args[i].Value.Text(), true
		}
	}
	return "", false
}

// maxLinks is the maximum number of links that are read for a span. All of them are in memory at the same time.
const maxLinks = 1000

// links reads the links of the span at row r. Links are the first children of a span.
func (d *Details) links(v *view.View, r view.Row) error {
	kids := v.Children(r)
	n := 0
	for n < len(kids) && v.Role(kids[n]) == view.RoleLink {
		n++
	}
	if n > maxLinks {
		d.Args.Add("entrace.links_left_out", format.U64Value(uint64(n-maxLinks)))
	}
	for _, kid := range kids[:min(n, maxLinks)] {
		e, err := v.Entry(kid)
		if err != nil {
			return err
		}
		l := otel.ReadLink(e)
		m := otel.Any{Kind: otel.Map, Map: make([]otel.KeyValue, 0, 4)}
		add := func(name string, v otel.Any) { m.Map = append(m.Map, otel.KeyValue{Key: name, Value: v}) }
		add(format.AttrTraceID, otel.TextAny(hex.EncodeToString(l.TraceID[:])))
		add(format.AttrSpanID, otel.TextAny(hex.EncodeToString(l.SpanID[:])))
		if l.TraceState != "" {
			add("trace_state", otel.TextAny(l.TraceState))
		}
		if l.Flags != mapping.DefaultTraceFlags {
			add("flags", otel.IntAny(int64(l.Flags)))
		}
		if len(l.Attributes) > 0 {
			attrs := otel.Any{Kind: otel.Map}
			for i := range l.Attributes {
				attrs.Map = append(attrs.Map, otel.KeyValue{Key: l.Attributes[i].Name, Value: l.Attributes[i].Any()})
			}
			add("attributes", attrs)
		}
		if l.Dropped > 0 {
			add(mapping.AttrDroppedAttributes, otel.IntAny(int64(l.Dropped)))
		}
		d.Links.Kind = otel.List
		d.Links.List = append(d.Links.List, m)
	}
	return nil
}
