package measureme

import (
	"cmp"
	"encoding/base64"
	"encoding/binary"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/entrace-go/entrace/format"
	"github.com/entrace-go/entrace/internal/core/mapping"
	"github.com/entrace-go/entrace/internal/core/wire"
	"github.com/entrace-go/entrace/internal/text/jsontext"
	"github.com/entrace-go/entrace/view"
)

// The kinds of events that are written for what does not come from measureme.
const (
	kindInternal = "internal" // of a span without otel.kind
	kindEvent    = "event"
	kindLog      = "log"
)

const (
	attrOpen  = "entrace.open"
	argScope  = "otel.scope.name="
	argLink   = "otel.link="
	argLevel  = "level="
	argTrace  = "trace_id="
	argSpan   = "span_id="
	argParent = "parent_span_id="
)

// metadata returns the metadata string, and fixes the start of the profile. What
// came from a profile stays as it was, as long as nothing begins earlier.
func (e *encoder) metadata() []byte {
	e.start = e.earliest
	timed := e.earliest <= e.latest
	if !timed {
		e.start = 0
	}
	var m metadata
	var more []byte
	for n, r := range e.resource {
		if text, ok := r.Attribute(attrMetadata); ok && n == 0 {
			if old, ok := parseMetadata(text.Text()); ok && utf8.ValidString(text.Text()) {
				if fits := !timed || int64(old.start) <= e.earliest && e.latest-int64(old.start) <= maxEnd; fits {
					e.start = int64(old.start)
					if !old.escaped {
						return []byte(old.text)
					}
				}
			}
		}
		more = appendResource(more, n, r)
		if n == 0 {
			m.fill(r)
		}
	}
	if len(e.resource) > 0 {
		more = append(more, ']')
	}
	m.start = uint64(max(e.start, 0))
	return appendMetadata(nil, &m, more)
}

// fill takes from a resource what the tools look for.
func (m *metadata) fill(r *format.TraceEntry) {
	if v, ok := r.Attribute(attrPID); ok {
		m.processID, _ = threadOf(v)
	}
	if v, ok := r.Attribute(attrCommand); ok {
		m.command = v.Text()
	}
	service := r.Message.Value
	if v, ok := r.Attribute(attrService); ok {
		service = v.Text()
	}
	if service != "" && !strings.Contains(m.command, crateFlag) {
		m.command += crateFlag + strings.ReplaceAll(service, " ", "_") + " "
	}
}

// appendResource appends the attributes of the n-th resource to a member that
// lists them.
func appendResource(b []byte, n int, r *format.TraceEntry) []byte {
	if n == 0 {
		b = append(b, `, "resources": [`...)
	} else {
		b = append(b, `, `...)
	}
	b = append(b, '{')
	comma := false
	for i := range r.Attributes {
		a := &r.Attributes[i]
		if a.Name == attrMetadata {
			continue
		}
		if comma {
			b = append(b, `, `...)
		}
		comma = true
		b = append(jsontext.AppendString(b, a.Name), `: `...)
		b = jsontext.AppendString(b, string(appendValue(nil, a.Value)))
	}
	return append(b, '}')
}

// text makes the strings of one record.
func (e *encoder) text(r *record, t *format.TraceEntry) error {
	label, kind := t.Metadata.Name, kindEvent
	switch {
	case r.what&isSpan != 0:
		kind = kindInternal
		if v, ok := t.Attribute(mapping.AttrKind); ok {
			kind = v.Text()
		}
	case t.Message.Valid:
		label, kind = t.Message.Value, kindLog
	}
	v, native := t.Attribute(attrKind)
	if native = native && v.Kind() == format.KindString; native {
		kind = v.Text()
	}
	e.buf = appendText(e.buf[:0], cmp.Or(kind, unnamed))
	r.kind = e.strings.intern(e.buf)
	e.id, e.unique = e.id[:0], false
	e.buf = appendText(e.buf[:0], cmp.Or(label, unnamed))
	e.part(e.buf, true)
	e.nativeArgs(t)
	if !native {
		if err := e.ids(r, t); err != nil {
			return err
		}
		if t.Metadata.Target != "" {
			e.arg(argScope, format.StringValue(t.Metadata.Target))
		}
		if r.what&isSpan == 0 && t.Message.Valid {
			e.arg(argLevel, format.StringValue(t.Metadata.Level.String()))
		}
	}
	if r.what&isOpen != 0 {
		e.arg(attrOpen+"=", format.BoolValue(true))
	}
	for i := range t.Attributes {
		a := &t.Attributes[i]
		if !carried(a, native, r.what&isInteger != 0) {
			e.arg(a.Name+"=", a.Value)
		}
	}
	if e.unique {
		r.id = e.strings.add(e.id)
	} else {
		r.id = e.strings.intern(e.id)
	}
	return nil
}

// add adds an argument. One that comes often is written once.
func (e *encoder) add(text []byte, often bool) {
	e.id = append(e.id, separator)
	e.part(text, often)
}

// part adds a text to the id of an event: as a reference if it comes often and is longer than that.
func (e *encoder) part(text []byte, often bool) {
	e.unique = e.unique || !often
	if often && len(text) > 1+idSize {
		e.id = binary.LittleEndian.AppendUint64(append(e.id, reference), uint64(e.strings.intern(text)))
		return
	}
	e.id = append(e.id, text...)
}

// carried reports whether an attribute is in the event elsewhere than in its
// arguments, or means nothing there.
func carried(a *format.Attribute, native, integer bool) bool {
	switch a.Name {
	case format.AttrTime, format.AttrDuration, format.AttrTraceID, format.AttrSpanID, format.AttrParentSpanID,
		mapping.AttrEvent, mapping.AttrJSON, mapping.AttrAnyValue, attrKind, attrMadeIDs, attrOpen:
		return true
	case mapping.AttrKind:
		return !native // it is the kind
	case attrThread:
		// What is not from a profile may be on another lane.
		_, ok := threadOf(a.Value)
		return ok && native
	case attrValue:
		return integer
	}
	_, ok := argNumber(a)
	return ok
}

// argNumber reports whether a is an argument as it came, and which.
func argNumber(a *format.Attribute) (int, bool) {
	digits, ok := strings.CutPrefix(a.Name, attrArg)
	if !ok || a.Value.Kind() != format.KindString || len(digits) > 3 {
		return 0, false
	}
	n, err := strconv.ParseUint(digits, 10, 16)
	return int(n), err == nil
}

// nativeArgs adds the arguments that came from a profile, by their numbers.
func (e *encoder) nativeArgs(t *format.TraceEntry) {
	type arg struct {
		number int
		text   string
	}
	var few [8]arg
	args := few[:0]
	for i := range t.Attributes {
		if n, ok := argNumber(&t.Attributes[i]); ok {
			args = append(args, arg{n, t.Attributes[i].Value.Text()})
		}
	}
	if len(args) > 1 {
		slices.SortStableFunc(args, func(a, b arg) int { return cmp.Compare(a.number, b.number) })
	}
	for _, a := range args {
		e.buf = appendText(e.buf[:0], a.text)
		e.add(e.buf, true)
	}
}

// ids adds the ids of a span, or of the span of a log record, and the targets of
// links.
func (e *encoder) ids(r *record, t *format.TraceEntry) error {
	if v, ok := t.Attribute(attrMadeIDs); ok && v.Bool() {
		return nil
	}
	switch e.v.Role(r.row) {
	case view.RoleSpan:
		e.ref(e.v.Ref(r.row))
		if up := e.v.Parent(r.row); e.v.Role(up) == view.RoleSpan {
			e.parent(e.v.Ref(up).SpanID)
		} else if v, ok := t.Attribute(format.AttrParentSpanID); ok {
			e.arg(argParent, v)
		}
		return e.links(r.row)
	case view.RoleLog:
		if ref := e.v.Ref(r.row); ref.IsValid() {
			e.ref(ref)
			return nil
		}
		for i := range t.Attributes {
			if a := &t.Attributes[i]; a.Name == format.AttrTraceID || a.Name == format.AttrSpanID {
				e.arg(a.Name+"=", a.Value)
			}
		}
	}
	return nil
}

// ref adds the ids of a span.
func (e *encoder) ref(ref format.SpanRef) {
	e.buf = wire.AppendHex(append(e.buf[:0], argTrace...), ref.TraceID[:])
	e.add(e.buf, true) // the same for many
	e.buf = wire.AppendHex(append(e.buf[:0], argSpan...), ref.SpanID[:])
	e.add(e.buf, false)
}

func (e *encoder) parent(id [8]byte) {
	e.buf = wire.AppendHex(append(e.buf[:0], argParent...), id[:])
	e.add(e.buf, false)
}

func (e *encoder) links(id view.Row) error {
	for _, kid := range e.v.Children(id) {
		if e.v.Role(kid) != view.RoleLink {
			return nil // links come first
		}
		l, err := e.v.Entry(kid)
		if err != nil {
			return err
		}
		traceID, _ := l.Attribute(mapping.AttrLinkTraceID)
		spanID, _ := l.Attribute(mapping.AttrLinkSpanID)
		e.buf = appendText(append(e.buf[:0], argLink...), traceID.Text())
		e.buf = appendText(append(e.buf, '-'), spanID.Text())
		e.add(e.buf, false)
	}
	return nil
}

// arg adds an argument.
func (e *encoder) arg(key string, v format.Value) {
	e.buf = appendText(e.buf[:0], key)
	if v.Kind() == format.KindString {
		e.buf = appendText(e.buf, v.Text())
	} else {
		e.buf = appendValue(e.buf, v)
	}
	e.add(e.buf, true)
}

// appendValue appends a value as a text.
func appendValue(b []byte, v format.Value) []byte {
	switch v.Kind() {
	case format.KindString:
		return append(b, v.Text()...)
	case format.KindBytes:
		return base64.StdEncoding.AppendEncode(b, v.Bytes())
	case format.KindBool:
		return strconv.AppendBool(b, v.Bool())
	case format.KindFloat:
		return strconv.AppendFloat(b, v.Float(), 'g', -1, 64)
	}
	return v.AppendDecimal(b)
}
