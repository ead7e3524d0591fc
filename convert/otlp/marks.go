package otlp

import (
	"slices"

	"github.com/entrace-go/entrace/format"
	"github.com/entrace-go/entrace/internal/jsontext"
	"github.com/entrace-go/entrace/internal/mapping"
	"github.com/entrace-go/entrace/internal/otel"
)

// What OTLP has no field for goes along as attributes, which decoding takes away again.

const (
	codeFile = "code.file.path"
	codeLine = "code.line.number"
)

// addCode adds the place in the source to attributes that do not name one: log/slog
// has it beside its attributes.
func addCode(attrs []otel.Attribute, md *format.Metadata) []otel.Attribute {
	if !md.File.Valid {
		return attrs
	}
	for i := range attrs {
		if attrs[i].Name == codeFile || attrs[i].Name == codeLine {
			return attrs
		}
	}
	attrs = append(attrs, otel.Attribute{Name: codeFile, Value: format.StringValue(md.File.Value)})
	if md.Line.Valid {
		attrs = append(attrs, otel.Attribute{Name: codeLine, Value: format.I64Value(int64(md.Line.Value))})
	}
	return attrs
}

// takeCode takes from the entry of a log record what addCode added: its metadata have it.
func takeCode(e *format.TraceEntry) {
	if !e.Metadata.File.Valid {
		return
	}
	e.Attributes = slices.DeleteFunc(e.Attributes, func(a format.Attribute) bool {
		switch a.Name {
		case codeFile:
			return a.Value.Equal(format.StringValue(e.Metadata.File.Value))
		case codeLine:
			return e.Metadata.Line.Valid && a.Value.Equal(format.I64Value(int64(e.Metadata.Line.Value)))
		}
		return false
	})
}

// addDurations adds a list of the attributes that are durations, which OTLP does not tell from
// other numbers.
func addDurations(attrs []otel.Attribute) []otel.Attribute {
	var names []string
	for i := range attrs {
		if attrs[i].Encoding == otel.Duration {
			names = append(names, attrs[i].Name)
		}
	}
	if names == nil {
		return attrs
	}
	list := format.StringValue(string(jsontext.AppendStrings(nil, names)))
	return append(attrs, otel.Attribute{Name: mapping.AttrDurations, Value: list, Encoding: otel.JSON})
}

// takeDurations is the other direction.
func takeDurations(attrs []otel.Attribute) []otel.Attribute {
	at := slices.IndexFunc(attrs, func(a otel.Attribute) bool { return a.Name == mapping.AttrDurations && a.Encoding == otel.JSON })
	if at < 0 {
		return attrs
	}
	names := otel.Names(attrs[at].Value)
	if len(names) == 0 {
		return attrs
	}
	for i := range attrs {
		if attrs[i].Encoding == otel.Native && attrs[i].Value.Kind() == format.KindI64 && names[attrs[i].Name] {
			attrs[i].Encoding = otel.Duration
		}
	}
	return slices.Delete(attrs, at, at+1)
}

// addOpen marks a span that has not ended: OTLP has an end of 0 for it.
func addOpen(s *otel.Span) {
	if !s.Ended && !s.Unmarked {
		s.Attributes = append(s.Attributes, otel.Attribute{Name: otel.AttrOpen, Value: format.BoolValue(true)})
	}
}

// takeOpen is the other direction.
func takeOpen(s *otel.Span) {
	if s.Unmarked = !s.Ended; !s.Unmarked {
		return
	}
	n := len(s.Attributes)
	s.Attributes = slices.DeleteFunc(s.Attributes, func(a otel.Attribute) bool { return a.Name == otel.AttrOpen && a.Value.Bool() })
	s.Unmarked = n == len(s.Attributes)
}
