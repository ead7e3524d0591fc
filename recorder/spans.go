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
