// Package stdouttrace reads the output of OpenTelemetry's exporters stdouttrace and stdoutlog for Go. They print an
// object for each span or log record, on one line or several. The objects may also be in arrays.
//
// The conversion loses the remote flag of parents, the number of child spans, and text outside the objects. The
// exporters do not print integers beyond 63 bits, and no numbers such as NaN, which JSON cannot represent.
package stdouttrace

import (
	"cmp"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/entrace-go/entrace/convert/internal/foreign"
	"github.com/entrace-go/entrace/format"
	"github.com/entrace-go/entrace/internal/otel"
)

// A record is a span, or a log record if it has an observed time.
type record struct {
	Name        string
	SpanContext spanContext
	Parent      spanContext
	SpanKind    int32
	StartTime   time.Time
	EndTime     time.Time
	Events      []struct {
		Name                  string
		Attributes            pairs
		DroppedAttributeCount uint32
		Time                  time.Time
	}
	Links []struct {
		SpanContext           spanContext
		Attributes            pairs
		DroppedAttributeCount uint32
	}
	Status struct {
		Code        string
		Description string
	}
	DroppedEvents, DroppedLinks uint32

	Timestamp         time.Time
	ObservedTimestamp *time.Time
	EventName         string
	Severity          uint32
	SeverityText      string
	Body              value
	TraceID           string
	SpanID            string
	TraceFlags        string

	Attributes             pairs
	DroppedAttributes      uint32
	Resource               pairs
	InstrumentationScope   *scope // for spans
	InstrumentationLibrary scope  // for spans in old versions
	Scope                  scope  // for log records
}

type spanContext struct {
	TraceID    string
	SpanID     string
	TraceFlags string
	TraceState string
}

type scope struct {
	Name, Version, SchemaURL string
	Attributes               pairs
}

// pairs are attributes. stdoutlog prints an object instead if there are no attributes.
type pairs []struct {
	Key   string
	Value value
}

// UnmarshalJSON implements [json.Unmarshaler].
func (p *pairs) UnmarshalJSON(b []byte) error {
	if len(b) > 0 && b[0] == '{' {
		return nil
	}
	type plain pairs // has no UnmarshalJSON
	return json.Unmarshal(b, (*plain)(p))
}

// A value is the value of an attribute.
type value struct {
	Type  string
	Value json.RawMessage
}

// maxDepth is the maximum nesting depth of values. Readers of the trace do not accept deeper values.
const maxDepth = 100

var errDeep = errors.New("values are nested too deeply")

// Decode reads the output of the exporters from r and writes it to w, parents before children. It does not close w.
// If the input is damaged, Decode writes the spans and log records before the damage, and the error is an *Error of
// package convert.
func Decode(ctx context.Context, r io.Reader, w *format.Writer) error {
	return foreign.Decode(ctx, r, w, "record", func(r *record, add foreign.Adder) bool { return add(r.record()) })
}

func (r *record) record() (*foreign.Record, error) {
	to, d := new(foreign.Record), new(decoder)
	to.Resource.Attributes = d.attributes(r.Resource)
	if d.err != nil {
		return nil, d.err
	}
	if r.ObservedTimestamp != nil {
		to.Log = d.log(r)
	} else {
		to.Spans = []*otel.Span{d.span(r)}
	}
	return to, d.err
}

// A decoder decodes a record. It keeps the first error, but prefers an error about an invalid id.
type decoder struct{ err error }

func (d *decoder) span(r *record) *otel.Span {
	from := &r.InstrumentationLibrary
	if r.InstrumentationScope != nil {
		from = r.InstrumentationScope
	}
	s := &otel.Span{
		Name: r.Name, TraceState: r.SpanContext.TraceState, Flags: 0x100 | flags(r.SpanContext.TraceFlags), Kind: otel.SpanKindOf(r.SpanKind),
		Description: r.Status.Description, DroppedAttributes: r.DroppedAttributes, DroppedEvents: r.DroppedEvents, DroppedLinks: r.DroppedLinks,
	}
	s.SetTimes(uint64(unixNano(r.StartTime)), uint64(unixNano(r.EndTime)))
	switch r.Status.Code {
	case "Ok":
		s.Status = otel.StatusOK
	case "Error":
		s.Status = otel.StatusError
	}
	if !foreign.ID(s.TraceID[:], r.SpanContext.TraceID) || !foreign.ID(s.SpanID[:], r.SpanContext.SpanID) || !foreign.ID(s.Parent[:], r.Parent.SpanID) {
		d.err = foreign.ErrID
		return nil
	}
	s.Scope, s.Attributes = d.scope(from), d.attributes(r.Attributes)
	for i := range r.Events {
		e := &r.Events[i]
		s.Events = append(s.Events, otel.Event{
			Name: e.Name, Time: unixNano(e.Time), HasTime: !e.Time.IsZero(), Attributes: d.attributes(e.Attributes), Dropped: e.DroppedAttributeCount,
		})
	}
	for i := range r.Links {
		from := &r.Links[i]
		l := otel.Link{TraceState: from.SpanContext.TraceState, Flags: 0x100 | flags(from.SpanContext.TraceFlags), Dropped: from.DroppedAttributeCount}
		if !foreign.ID(l.TraceID[:], from.SpanContext.TraceID) || !foreign.ID(l.SpanID[:], from.SpanContext.SpanID) {
			d.err = foreign.ErrID
			return nil
		}
		l.Attributes = d.attributes(from.Attributes)
		s.Links = append(s.Links, l)
	}
	return s
}

func (d *decoder) log(r *record) *otel.Log {
	l := &otel.Log{
		Time: unixNano(r.Timestamp), HasTime: !r.Timestamp.IsZero(), Observed: unixNano(*r.ObservedTimestamp), Severity: r.Severity,
		SeverityText: r.SeverityText, EventName: r.EventName, Flags: flags(r.TraceFlags), Dropped: r.DroppedAttributes,
	}
	if !foreign.ID(l.TraceID[:], r.TraceID) || !foreign.ID(l.SpanID[:], r.SpanID) {
		d.err = foreign.ErrID
		return nil
	}
	l.Attributes = d.attributes(r.Attributes)
	body, err := r.Body.any(0)
	d.err = cmp.Or(d.err, err)
	l.Body, l.Scope = body, d.scope(&r.Scope)
	return l
}

func (d *decoder) scope(s *scope) otel.Scope {
	return otel.Scope{Name: s.Name, Version: s.Version, SchemaURL: s.SchemaURL, Attributes: d.attributes(s.Attributes)}
}

func (d *decoder) attributes(p pairs) (attrs otel.Attributes) {
	for i := range p {
		v, err := p[i].Value.any(0)
		if err != nil {
			d.err = cmp.Or(d.err, fmt.Errorf("attribute %q: %w", p[i].Key, err))
			return nil
		}
		attrs = append(attrs, otel.NewAttribute(p[i].Key, &v))
	}
	return attrs
}

// any converts v. The type is needed for floats, bytes and maps, which JSON does not distinguish from other values.
func (v *value) any(depth int) (to otel.Any, err error) {
	if depth > maxDepth {
		return to, errDeep
	}
	switch t := strings.ToUpper(v.Type); t {
	case "FLOAT64", "FLOAT64SLICE":
		to = foreign.Any(v.Value)
		floats(&to)
	case "BYTESLICE", "BYTES":
		var text string
		if err := json.Unmarshal(v.Value, &text); err != nil {
			return to, err
		}
		b, err := base64.StdEncoding.DecodeString(text)
		return otel.Any{Kind: otel.Bytes, Text: string(b)}, err
	case "MAP":
		var all pairs
		if err := json.Unmarshal(v.Value, &all); err != nil {
			return to, err
		}
		to.Kind = otel.Map
		for i := range all {
			item, err := all[i].Value.any(depth + 1)
			if err != nil {
				return to, err
			}
			to.Map = append(to.Map, otel.KeyValue{Key: all[i].Key, Value: item})
		}
	case "SLICE":
		var all []value
		if err := json.Unmarshal(v.Value, &all); err != nil {
			return to, err
		}
		to.Kind = otel.List
		for i := range all {
			item, err := all[i].any(depth + 1)
			if err != nil {
				return to, err
			}
			to.List = append(to.List, item)
		}
	default:
		if len(v.Value) > 0 {
			to = foreign.Any(v.Value)
		}
	}
	return to, nil
}

// floats converts the integers in v to floats.
func floats(v *otel.Any) {
	if v.Kind == otel.Int {
		*v = otel.Any{Kind: otel.Float, Float: float64(v.Int)}
	}
	for i := range v.List {
		floats(&v.List[i])
	}
}

// flags parses flags from hex digits.
func flags(digits string) uint32 {
	n, _ := strconv.ParseUint(digits, 16, 8) // 0 if digits is invalid
	return uint32(n)
}

func unixNano(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixNano()
}
