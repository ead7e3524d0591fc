package format

import (
	"github.com/entrace-go/entrace/internal/record"
)

// A SpanRef names a span: its trace id and its span id. The zero SpanRef names
// none.
type SpanRef struct {
	TraceID [16]byte
	SpanID  [8]byte
}

// IsValid reports whether both ids are set.
func (s SpanRef) IsValid() bool { return s.TraceID != [16]byte{} && s.SpanID != [8]byte{} }

// key returns s as journal records have it.
func (s *SpanRef) key() (r record.Ref) {
	copy(r[:16], s.TraceID[:])
	copy(r[16:], s.SpanID[:])
	return r
}

// refOf is the other direction.
func refOf(r *record.Ref) SpanRef {
	return SpanRef{TraceID: [16]byte(r.TraceID()), SpanID: [8]byte(r.SpanID())}
}
