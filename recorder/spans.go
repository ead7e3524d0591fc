package recorder

import (
	"github.com/entrace-go/entrace/format"
	"github.com/entrace-go/entrace/internal/core/record"
)

// keyOf returns s in the form that journal records use.
func keyOf(s *format.SpanRef) (r record.Ref) {
	copy(r[:16], s.TraceID[:])
	copy(r[16:], s.SpanID[:])
	return r
}

// refOf returns the SpanRef of a journal record's Ref.
func refOf(r *record.Ref) format.SpanRef {
	return format.SpanRef{TraceID: [16]byte(r.TraceID()), SpanID: [8]byte(r.SpanID())}
}
