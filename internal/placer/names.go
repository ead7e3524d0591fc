package placer

import "strings"

// Names of attributes and entries that a Placer adds or looks for. Package format
// documents them.
const (
	attrTraceID      = "trace_id"
	attrSpanID       = "span_id"
	attrParentSpanID = "parent_span_id"
	attrJSON         = "otel.json"
	attrAnyValue     = "otel.anyvalue"
	attrDurations    = "entrace.duration"
	attrTruncated    = "!TRUNCATED"
	attrTime         = "time_unix_nano"

	escapePrefix = "otel.attr."

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

// Reserved reports whether a user's attribute may not be stored under that name.
func Reserved(name string) bool {
	switch name {
	case attrTraceID, attrSpanID, attrParentSpanID, "time_unix_nano", "duration_nano", "trace_flags", "log.level",
		"severity_number", "severity_text", "observed_time_unix_nano", attrTruncated:
		return true
	}
	return strings.HasPrefix(name, "otel.") || strings.HasPrefix(name, "entrace.")
}

// EscapeName returns the name under which a user's attribute is stored.
func EscapeName(name string) string {
	if Reserved(name) {
		return escapePrefix + name
	}
	return name
}

// UserName is the other direction: the user's name of a stored attribute, and whether it
// is one of the user's at all.
func UserName(stored string) (name string, ok bool) {
	if name, ok := strings.CutPrefix(stored, escapePrefix); ok {
		return name, true
	}
	return stored, !Reserved(stored)
}
