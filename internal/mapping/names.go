// Package mapping has names of attributes and entries that several packages of this module read or
// write and their users do not need: those of OpenTelemetry's fields, and of the state of a file.
// Package format has the others.
package mapping

import "strings"

// The attributes that describe an entry. Part of the product's format: see the tables in the
// documentation of packages exporter and slogadapter.
const (
	AttrTraceFlags = "trace_flags" // U64
	AttrLogLevel   = "log.level"   // String

	AttrKind              = "otel.kind"
	AttrStatusCode        = "otel.status_code"
	AttrStatusDescription = "otel.status_description"
	AttrEvent             = "otel.event"
	AttrLinkTraceID       = "otel.link.trace_id"
	AttrLinkSpanID        = "otel.link.span_id"
	AttrClockSkew         = "otel.clock_skew_nano" // I64, of a span that ends before it begins
	AttrDroppedAttributes = "otel.dropped_attributes_count"
	AttrDroppedEvents     = "otel.dropped_events_count"
	AttrDroppedLinks      = "otel.dropped_links_count"
	AttrScopeVersion      = "otel.scope.version"
	AttrScopePrefix       = "otel.scope.attr."
	AttrJSON              = "otel.json"        // String, a JSON array of the names of attributes that are JSON texts
	AttrAnyValue          = "otel.anyvalue"    // likewise, OTLP/JSON AnyValue texts
	AttrDurations         = "entrace.duration" // likewise, of those that are durations, I64 of nanoseconds

	AttrContinued = "entrace.continued" // Bool, on a span that began in an earlier file
	AttrRotated   = "entrace.rotated"   // Bool, on the end of a file that another one follows
	AttrDamage    = "damage"            // String, why the whole entries of a damaged file end, one of the names below, on its NameRecovered
	AttrTruncated = "!TRUNCATED"        // Bool true, on an entry of which something was cut off

	// DefaultTraceFlags are the flags of a span or link for which none are stored:
	// sampled, and the parent is known to be local or absent.
	DefaultTraceFlags = 0x101
	// DefaultLogFlags are the flags of a log record that has a span and no
	// AttrTraceFlags: sampled. Without a span and AttrTraceFlags the flags are 0.
	DefaultLogFlags = 1
)

// The names of entries.
const (
	NameLink      = "link"
	NameEnd       = "entrace.end"
	NameRecovered = "entrace.recovered" // the last one if recovery has finished the file of a writer that was killed, or saved what is whole in a damaged one
	NameException = "exception"         // of an event that says why its span failed
	NameCrash     = "crash"             // of the log record that says why a process died, and in which stacks
	NameTrace     = "entrace.trace"     // says why a flight recorder has made the file
)

// The attributes of a NameTrace that tell which process the file is of.
const (
	AttrProcessID = "process.pid" // U64
	AttrHostName  = "host.name"   // String
)

// Why the whole entries of a file end where they do.
const (
	CutClean    = "clean"     // at the end of the file
	CutTorn     = "torn"      // the file stops within an entry
	CutZeroTail = "zero_tail" // only zero bytes follow
	CutCorrupt  = "corrupt"   // what follows is no entry
)

const escapePrefix = "otel.attr."

// Reserved reports whether a user's attribute may not be stored under that name.
func Reserved(name string) bool {
	switch name {
	case "trace_id", "span_id", "parent_span_id", "time_unix_nano", "duration_nano", AttrTraceFlags, AttrLogLevel,
		"severity_number", "severity_text", "observed_time_unix_nano", AttrTruncated:
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
