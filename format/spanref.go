package format

// A SpanRef identifies a span by its trace id and its span id. The zero SpanRef means no span.
type SpanRef struct {
	TraceID [16]byte
	SpanID  [8]byte
}

// IsValid reports whether both ids are set.
func (s SpanRef) IsValid() bool { return s.TraceID != [16]byte{} && s.SpanID != [8]byte{} }
