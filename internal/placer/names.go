package placer

// Names of attributes and entries that a Placer adds or looks for. Package format
// documents them.
const (
	attrTraceID      = "trace_id"
	attrSpanID       = "span_id"
	attrParentSpanID = "parent_span_id"
	attrTime         = "time_unix_nano"

	nameSpanEnd = "span end"
)

// Levels of entries.
const (
	levelTrace = 0
	levelError = 4
)

// ofEnd reports whether the entry of a span's end has such an attribute, which is not the
// application's.
func ofEnd(name string) bool {
	switch name {
	case attrSpanID, "duration_nano", "otel.clock_skew_nano", "otel.status_code", "otel.status_description",
		"otel.dropped_attributes_count", "otel.dropped_events_count", "otel.dropped_links_count":
		return true
	}
	return false
}
