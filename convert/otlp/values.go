package otlp

import (
	"strings"

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

// keep is otel.Clean for a text that outlives its record.
func keep(s string) string { return strings.Clone(otel.Clean(s)) }

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

// resetSpan empties a span but for the memory that it has.
func resetSpan(s *otel.Span) {
	*s = otel.Span{Attributes: s.Attributes[:0], Links: s.Links[:0], Events: s.Events[:0]}
}

// endLog finishes a log record: a message is valid UTF-8.
func endLog(l *otel.Log) {
	if l.Body.Kind == otel.String {
		l.Body.Text = otel.Clean(l.Body.Text)
	}
}
