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

// An Entry is a record that was found in one or several lines. It is valid until the next call of the Parser.
type Entry struct {
	Log   *otel.Log
	Span  *otel.Span // the request, if the record is one and has a duration; the log record then has all that it has
	Shape string

	service string // the service that wrote the line; "" if unknown
}

// An entry is a record that is being put together.
type entry struct {
	log otel.Log
	found
}

// found is what the lines of a record have said so far.
type found struct {
	said, timed, leveled, partial bool
	tracing                       bool // Rust's tracing-subscriber wrote it
	status                        int64
	took                          float64 // in nanoseconds, or negative
	method, path                  string
	service, line, stack          string
	shape                         *Shape
	severity                      uint32
	severityText                  string
	time                          int64
	trace                         [16]byte
	span                          [8]byte
}

// set sets a field of the record.
func (e *entry) set(p *Parser, m meaning, v *otel.Any) {
	if e.means(p, m, v) {
		return
	}
	name := m.name
	if strings.ContainsAny(m.is, "._") {
		name = m.is
	}
	e.log.Attributes = append(e.log.Attributes, otel.NewAttribute(name, v))
}

// means sets a field that has a meaning. It returns false if the value does not fit the meaning, or the field remains
// an attribute as well.
func (e *entry) means(p *Parser, m meaning, v *otel.Any) (ok bool) {
	text := v.Text
	isText := v.Kind == otel.String
	if v.Kind == otel.Int && m.is != "" {
		text = strconv.FormatInt(v.Int, 10)
	}
	switch m.is {
	case "time":
		if at, ok := p.timeOf(v); ok && !e.timed {
			e.time, e.timed = at, true
			return true
		}
	case "level":
		if e.leveled {
			return false
		}
		if isText {
			e.severity, ok = severityNamed(text)
		} else {
			e.severity, ok = numberedLevel(v)
		}
		e.severityText, e.leveled = text, ok
		return ok
	case "pri":
		if n := decimal(text); text != "" && isDigit(text[0]) && n < 192 {
			e.severity, e.severityText = syslogLevels[n%8], text
			return true
		}
	case "message":
		if e.said || !isText {
			return false
		}
		e.log.Body, e.said, e.tracing = *v, true, e.tracing || m.name == tracingFields+"message"
		return true
	case "line":
		if isText && e.line == "" {
			e.line = text
			return true
		}
	case "logger":
		if isText {
			e.log.Scope.Name = strings.TrimSuffix(text, ":")
			return true
		}
	case "service":
		if isText {
			e.service = text
			return true
		}
	case "partial":
		e.partial = text == "P"
		return true
	case "caller":
		if at := strings.LastIndexByte(text, ':'); isText && at > 0 {
			file, line := otel.TextAny(text[:at]), otel.IntAny(decimal(text[at+1:]))
			e.log.Attributes = append(e.log.Attributes, otel.NewAttribute("code.file.path", &file), otel.NewAttribute("code.line.number", &line))
			return line.Int > 0
		}
	case "trace":
		return e.ids(text, m.name)
	case "traceparent":
		if part := strings.Split(text, "-"); len(part) == 4 {
			var span bool
			e.trace, ok = wire.ParseID[[16]byte](part[1])
			e.span, span = wire.ParseID[[8]byte](part[2])
			return ok && span
		}
	case "span":
		e.span, ok = idOf[[8]byte](text, m.name)
		return ok
	case "stack":
		if isText && e.stack == "" {
			e.stack = text
			return true
		}
	case "method":
		e.method = text
	case "path":
		e.path = text
	case "request":
		if part := strings.Fields(text); len(part) > 1 {
			e.method, e.path = part[0], part[1]
			return true
		}
	case "status":
		if v.Kind == otel.Int && v.Int >= 100 && v.Int < 600 {
			e.status = v.Int
		}
	case "took":
		e.took = tookOf(v, m.unit)
	}
	return false
}

// ids sets the trace id from a text. The names of X-Ray and of Google's traces have more than the id.
func (e *entry) ids(text, name string) (ok bool) {
	text = text[strings.LastIndexByte(text, '/')+1:]
	if root, rest, found := strings.Cut(strings.TrimPrefix(text, "Root="), ";"); found {
		text = root
		_, parent, _ := strings.Cut(rest, "Parent=")
		e.span, _ = wire.ParseID[[8]byte](parent[:min(len(parent), 16)])
	}
	e.trace, ok = idOf[[16]byte](strings.ReplaceAll(strings.TrimPrefix(text, "1-"), "-", ""), name)
	return ok
}

// idOf reads an id of hexadecimal digits, or of decimal ones if the name of its field is Datadog's. It may be shorter
// than usual.
func idOf[T [16]byte | [8]byte](text, name string) (id T, ok bool) {
	if n, err := strconv.ParseUint(text, 10, 64); err == nil && strings.HasPrefix(name, "dd.") {
		text = strconv.FormatUint(n, 16)
	}
	if text == "" || len(text) > 2*len(id) {
		return id, false
	}
	return wire.ParseID[T](strings.Repeat("0", 2*len(id)-len(text)) + text)
}

// numberedLevel reads a number as a level: 0 to 7 as in syslog, 10 to 60 as in bunyan and pino.
func numberedLevel(v *otel.Any) (severity uint32, ok bool) {
	switch n := v.Int; {
	case v.Kind != otel.Int || n < 0:
	case n < int64(len(syslogLevels)):
		return syslogLevels[n], true
	case n >= 10 && n <= 60 && n%10 == 0:
		return uint32(4*(n/10) - 3), true
	}
	return 0, false
}

// tookOf returns a duration in nanoseconds, or a negative number. A number without a unit counts nanoseconds if it is an
// integer, as slog writes it, and otherwise seconds, as zap does.
func tookOf(v *otel.Any, unit float64) float64 {
	n := v.Float
	switch v.Kind {
	case otel.Int:
		n = float64(v.Int)
		unit = max(unit, 1)
	case otel.Float:
	case otel.String:
		if d, err := time.ParseDuration(v.Text); err == nil {
			return float64(d)
		}
		var err error
		n, err = strconv.ParseFloat(v.Text, 64)
		if err != nil {
			return -1
		}
	default:
		return -1
	}
	if unit == 0 {
		unit = 1e9
	}
	return n * unit
}

// timeOf reads a time: a text in one of the layouts, or a number since 1970.
func (p *Parser) timeOf(v *otel.Any) (unixNano int64, ok bool) {
	f := v.Float
	switch v.Kind {
	case otel.String:
		if at, n := p.clock.at(v.Text); n > 0 && n == len(v.Text) {
			return at, true
		}
		var err error
		f, err = strconv.ParseFloat(v.Text, 64)
		if err != nil {
			return 0, false
		}
		if n, err := strconv.ParseInt(v.Text, 10, 64); err == nil {
			return n * int64(unitOf(f)), unitOf(f) > 0
		}
	case otel.Int:
		unit := unitOf(float64(v.Int))
		return v.Int * int64(unit), unit > 0
	case otel.Float:
	default:
		return 0, false
	}
	unit := unitOf(f)
	return int64(min(f*unit, 1<<62)), unit > 0 && !math.IsInf(f, 0)
}

// isRequest reports whether the record is the line of an access log: it has a method, a path and a status of HTTP.
func (f *found) isRequest() bool { return f.status > 0 && f.method != "" && f.path != "" }

// isKnown reports whether the record is surely one of a log.
func (e *entry) isKnown() bool {
	if e.shape != shapeJSON && e.shape != shapeLogfmt {
		return e.time > 0 && e.shape != shapeNone
	}
	n := 0
	for _, known := range [...]bool{e.time > 0, e.leveled, e.said, e.isRequest()} {
		if known {
			n++
		}
	}
	return n > 1
}

// tracingFields is a prefix of names in the JSON lines of Rust's crate tracing-subscriber.
const tracingFields = "fields."

// finish completes the record.
func (e *entry) finish() Entry {
	l := &e.log
	if e.tracing {
		for i := range l.Attributes {
			a := &l.Attributes[i]
			a.Name = strings.TrimPrefix(a.Name, tracingFields)
			if a.Name == "target" {
				l.Scope.Name, a.Name = a.Value.Text(), ""
			}
		}
		l.Attributes = slices.DeleteFunc(l.Attributes, func(a otel.Attribute) bool { return a.Name == "" })
	}
	request := e.isRequest()
	if request && e.status >= 500 && e.severity < severityError {
		e.severity, e.severityText = severityError, ""
	}
	l.Time, l.HasTime, l.Observed = e.time, e.time != 0, e.time
	l.Severity, l.SeverityText = e.severity, e.severityText
	if name := otel.LevelOf(l.Severity).String(); l.SeverityText == "" || strings.EqualFold(name, l.SeverityText) {
		l.SeverityText = name
	}
	l.TraceID, l.SpanID, l.Flags = e.trace, e.span, 0
	if l.SpanID != [8]byte{} {
		l.Flags = mapping.DefaultLogFlags
	}
	e.stacked(l)
	out := Entry{Log: l, service: e.service, Shape: e.shape.Name}
	if request {
		e.request(&out)
	}
	return out
}

const (
	severityInfo  = 9
	severityError = 17
)
