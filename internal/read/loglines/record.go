package loglines

import (
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/entrace-go/entrace/internal/core/mapping"
	"github.com/entrace-go/entrace/internal/core/wire"
	"github.com/entrace-go/entrace/internal/otel"
)

// A Record is a log record, or a request of an access log, that was read from one or several lines. It is valid until the
// next call of the Parser.
type Record struct {
	Log     otel.Log
	Span    *otel.Span // the span, if the record is a request with a duration; Log has the same data
	Shape   *Shape
	Service string // the service that wrote the lines; "" if unknown

	seen         uint32 // the kinds of fields that were set, one bit for each kind
	partial      bool   // the wrapper has divided the line, and this is not the last part
	tracing      bool   // Rust's tracing-subscriber wrote it
	line, stack  string
	method, path string
	status       int64
	took         float64 // in nanoseconds, or negative
}

// has reports whether a field of the kind was set.
func (r *Record) has(k kind) bool { return r.seen>>k&1 != 0 }

// set sets a field of the current record. If a field of the same kind was already set, the field becomes an
// attribute.
func (p *Parser) set(m *meaning, v *otel.Any) {
	r := p.Record
	if !r.has(m.kind) && p.means(m, v) {
		r.seen |= 1 << m.kind
		return
	}
	r.Log.Attributes = append(r.Log.Attributes, otel.NewAttribute(m.name, v))
}

// means sets the part of the current record that a field stands for. It returns false if the value does not fit the
// meaning, or if the field must also become an attribute.
func (p *Parser) means(m *meaning, v *otel.Any) (ok bool) {
	r, l, text := p.Record, &p.Log, v.Text
	switch m.kind {
	case aTime:
		at, ok := p.timeOf(v)
		if ok {
			l.Time = at
		}
		return ok
	case aLevel, aPriority:
		n, ok := levelOf(v)
		text = v.Display()
		if m.kind == aPriority && text != "" && isDigit(text[0]) {
			n, ok = syslogLevels[decimal(text)%8], true
		}
		if ok {
			l.Severity, l.SeverityText = n, text
		}
		return ok
	case aTrace:
		return r.ids(v.Display(), m.name)
	case aSpan:
		l.SpanID, ok = idOf[[8]byte](v.Display(), m.name)
		return ok
	case aStatus:
		if n, _, ok := numberOf(v); ok && n >= 100 && n < 600 {
			r.status = int64(n)
		}
		return false
	case aDuration:
		r.took = tookOf(v, m.unit)
		return false
	}
	if v.Kind != otel.String {
		return false
	}
	switch m.kind {
	case aMessage:
		l.Body = *v
		r.tracing = r.tracing || m.name == tracingFields+"message"
	case aLine:
		if _, err := strconv.Atoi(text); err == nil {
			return false // the number of a line
		}
		r.line = text
	case aLogger:
		l.Scope.Name = strings.TrimSuffix(text, ":")
	case aService:
		r.Service = text
	case aPartial:
		r.partial = text == "P"
	case aStack:
		r.stack = text
	case aMethod:
		r.method = text
		return false
	case aPath:
		r.path = text
		return false
	case aRequest:
		part := strings.Fields(text)
		if len(part) < 2 {
			return false
		}
		r.method, r.path = part[0], part[1]
	case aCaller:
		at := max(strings.LastIndexByte(text, ':'), 0)
		file, line := otel.TextAny(text[:at]), otel.IntAny(decimal(strings.TrimPrefix(text[at:], ":")))
		if line.Int == 0 {
			return false
		}
		l.Attributes = append(l.Attributes, otel.NewAttribute("code.file.path", &file), otel.NewAttribute("code.line.number", &line))
	case aTraceparent:
		part := strings.Split(text, "-")
		return len(part) == 4 && r.ids(part[1], "") && p.means(&meaning{kind: aSpan}, &otel.Any{Kind: otel.String, Text: part[2]})
	default:
		return false
	}
	return true
}

// ids sets the trace id from a text. The trace names of X-Ray and Google contain more than the id.
func (r *Record) ids(text, name string) (ok bool) {
	r.Log.TraceID, ok = wire.ParseID[[16]byte](text)
	if ok {
		return ok
	}
	text = text[strings.LastIndexByte(text, '/')+1:]
	if root, rest, found := strings.Cut(strings.TrimPrefix(text, "Root="), ";"); found {
		text = root
		_, parent, _ := strings.Cut(rest, "Parent=")
		r.Log.SpanID, _ = wire.ParseID[[8]byte](parent[:min(len(parent), 16)])
	}
	r.Log.TraceID, ok = idOf[[16]byte](strings.ReplaceAll(strings.TrimPrefix(text, "1-"), "-", ""), name)
	return ok
}

// idOf reads an id of hexadecimal digits, or of decimal digits if the field has one of Datadog's names. The id may be
// shorter than usual.
func idOf[T [16]byte | [8]byte](text, name string) (id T, ok bool) {
	if strings.HasPrefix(name, "dd.") {
		if n, err := strconv.ParseUint(text, 10, 64); err == nil {
			text = strconv.FormatUint(n, 16)
		}
	}
	if text == "" || len(text) > 2*len(id) {
		return id, false
	}
	return wire.ParseID[T](strings.Repeat("0", 2*len(id)-len(text)) + text)
}

// levelOf reads a level: a name, or a number: 0 to 7 as in syslog, 10 to 60 as in bunyan and pino.
func levelOf(v *otel.Any) (severity uint32, ok bool) {
	switch n := v.Int; {
	case v.Kind == otel.String:
		return severityNamed(v.Text)
	case v.Kind != otel.Int || n < 0:
	case n < int64(len(syslogLevels)):
		return syslogLevels[n], true
	case n >= 10 && n <= 60 && n%10 == 0:
		return uint32(4*(n/10) - 3), true
	}
	return 0, false
}

// numberOf returns the number in a value. isInt says that the number has no point.
func numberOf(v *otel.Any) (f float64, isInt, ok bool) {
	switch v.Kind {
	case otel.Int:
		return float64(v.Int), true, true
	case otel.Float:
		return v.Float, false, true
	case otel.String:
		f, err := strconv.ParseFloat(v.Text, 64)
		return f, !strings.Contains(v.Text, "."), err == nil
	}
	return 0, false, false
}

// tookOf returns a duration in nanoseconds, or a negative number if v is not a duration. A number without a unit is
// in nanoseconds if it is an integer, as slog writes it, and otherwise in seconds, as zap writes it.
func tookOf(v *otel.Any, unit float64) float64 {
	if v.Kind == otel.String {
		if d, err := time.ParseDuration(v.Text); err == nil {
			return float64(d)
		}
	}
	n, isInt, ok := numberOf(v)
	switch {
	case !ok:
		return -1
	case unit != 0:
		return n * unit
	case isInt:
		return n
	}
	return n * 1e9
}

// timeOf reads a time: a text in one of the layouts, or a number since 1970.
func (p *Parser) timeOf(v *otel.Any) (unixNano int64, ok bool) {
	if t, err := time.Parse(time.RFC3339, v.Text); err == nil {
		return t.UnixNano(), true
	}
	if at, n := p.clock.at(v.Text); n > 0 && n == len(v.Text) {
		return at, true
	}
	f, _, ok := numberOf(v)
	unit := unitOf(f)
	ok = ok && unit > 0 && !math.IsInf(f, 0)
	n, err := v.Int, error(nil)
	if v.Kind == otel.String {
		n, err = strconv.ParseInt(v.Text, 10, 64)
	}
	if v.Kind == otel.Float || err != nil {
		return int64(min(f*unit, 1<<62)), ok
	}
	return n * int64(unit), ok
}

// isRequest reports whether the record is the line of an access log: it has a method, a path and a status of HTTP.
func (r *Record) isRequest() bool { return r.status > 0 && r.method != "" && r.path != "" }

// isKnown reports whether the record surely comes from a log.
func (r *Record) isKnown() bool {
	if r.Shape != shapeJSON && r.Shape != shapeLogfmt {
		return r.Log.Time > 0 && r.Shape != shapeNone
	}
	n := 0
	for _, known := range [...]bool{r.Log.Time > 0, r.has(aLevel), r.has(aMessage), r.isRequest()} {
		if known {
			n++
		}
	}
	return n > 1
}

// tracingFields is a prefix of names in the JSON lines of Rust's crate tracing-subscriber.
const tracingFields = "fields."

// finish completes the record.
func (r *Record) finish() *Record {
	l := &r.Log
	if r.tracing {
		for i := range l.Attributes {
			a := &l.Attributes[i]
			a.Name = strings.TrimPrefix(a.Name, tracingFields)
			if a.Name == "target" {
				l.Scope.Name, a.Name = a.Value.Text(), ""
			}
		}
		l.Attributes = slices.DeleteFunc(l.Attributes, func(a otel.Attribute) bool { return a.Name == "" })
	}
	if r.isRequest() && r.status >= 500 && l.Severity < severityError {
		l.Severity, l.SeverityText = severityError, ""
	}
	l.HasTime, l.Observed = l.Time != 0, l.Time
	if name := otel.LevelOf(l.Severity).String(); l.SeverityText == "" || strings.EqualFold(name, l.SeverityText) {
		l.SeverityText = name
	}
	if l.SpanID != [8]byte{} {
		l.Flags = mapping.DefaultLogFlags
	}
	r.stacked()
	if r.isRequest() {
		r.request()
	}
	return r
}

const (
	severityInfo  = 9
	severityError = 17
)
