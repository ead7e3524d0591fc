package otlp

import (
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/entrace-go/entrace/format"
	"github.com/entrace-go/entrace/internal/otel"
)

// The names of enums, as JSON may have them in place of numbers.
var (
	spanKinds = map[string]int32{
		"SPAN_KIND_UNSPECIFIED": 0, "SPAN_KIND_INTERNAL": 1, "SPAN_KIND_SERVER": 2,
		"SPAN_KIND_CLIENT": 3, "SPAN_KIND_PRODUCER": 4, "SPAN_KIND_CONSUMER": 5,
	}
	statusCodes     = map[string]int32{"STATUS_CODE_UNSET": 0, "STATUS_CODE_OK": 1, "STATUS_CODE_ERROR": 2}
	severityNumbers = func() map[string]int32 {
		names := map[string]int32{"SEVERITY_NUMBER_UNSPECIFIED": 0}
		for i, name := range [...]string{"TRACE", "DEBUG", "INFO", "WARN", "ERROR", "FATAL"} {
			for j, nth := range [...]string{"", "2", "3", "4"} {
				names["SEVERITY_NUMBER_"+name+nth] = int32(4*i + j + 1)
			}
		}
		return names
	}()
)

func spanKind(n int32) otel.SpanKind {
	if n < 0 || n > int32(otel.KindConsumer) {
		return otel.KindUnspecified
	}
	return otel.SpanKind(n)
}

func status(n int32) otel.Status {
	if n < 0 || n > int32(otel.StatusError) {
		return otel.StatusUnset
	}
	return otel.Status(n)
}

// clean returns s with U+FFFD for each byte that is not of UTF-8.
func clean(s string) string {
	if utf8.ValidString(s) {
		return s
	}
	return string([]rune(s))
}

// keep is clean for a text that outlives its record.
func keep(s string) string { return strings.Clone(clean(s)) }

// keepAll makes attributes outlive their record.
func keepAll(attrs []otel.Attribute) []otel.Attribute {
	for i := range attrs {
		a := &attrs[i]
		a.Name = strings.Clone(a.Name)
		if a.Encoding == otel.Native && a.Value.Kind() == format.KindString {
			a.Value = format.StringValue(strings.Clone(a.Value.Text()))
		}
	}
	return attrs
}

// tellApart makes attributes of one name all be of one encoding, which an entry
// names by their name alone.
func tellApart(attrs []otel.Attribute) {
	if !slices.ContainsFunc(attrs, func(a otel.Attribute) bool { return a.Encoding != otel.Native }) {
		return
	}
	encodings := make(map[string]otel.Encoding, len(attrs))
	mixed := false
	for i := range attrs {
		a := &attrs[i]
		if e, twice := encodings[a.Name]; twice && e != a.Encoding {
			encodings[a.Name], mixed = otel.AnyValue, true
		} else {
			encodings[a.Name] = a.Encoding
		}
	}
	if !mixed {
		return
	}
	for i := range attrs {
		a := &attrs[i]
		if to := encodings[a.Name]; to == otel.AnyValue && a.Encoding != to {
			v := a.Any()
			a.Value, a.Encoding = format.StringValue(string(otel.AppendAnyValue(nil, &v))), to
		}
	}
}

// resetSpan empties a span but for the memory that it has.
func resetSpan(s *otel.Span) {
	*s = otel.Span{Attributes: s.Attributes[:0], Links: s.Links[:0], Events: s.Events[:0]}
}

// endLog finishes a log record: a message is valid UTF-8.
func endLog(l *otel.Log) {
	if l.Body.Kind == otel.String {
		l.Body.Text = clean(l.Body.Text)
	}
}
