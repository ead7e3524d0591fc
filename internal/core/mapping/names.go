// Package mapping defines names of attributes and entries for OpenTelemetry's fields and for the state of a file.
// Users of this module do not need these names. Package format defines the names that users need.
package mapping

import "strings"

// Names of attributes that describe an entry. They are a part of this project's file format. The documentation of
// packages exporter and slogadapter has tables of them.
const (
	AttrTraceFlags = "trace_flags" // U64
	AttrLogLevel   = "log.level"   // String

	AttrKind              = "otel.kind"
	AttrStatusCode        = "otel.status_code"
	AttrStatusDescription = "otel.status_description"
	AttrEvent             = "otel.event"
	AttrLinkTraceID       = "otel.link.trace_id"
	AttrLinkSpanID        = "otel.link.span_id"
	AttrClockSkew         = "otel.clock_skew_nano" // I64, on a span that ends before it begins
	AttrDroppedAttributes = "otel.dropped_attributes_count"
	AttrDroppedEvents     = "otel.dropped_events_count"
	AttrDroppedLinks      = "otel.dropped_links_count"
	AttrScopeVersion      = "otel.scope.version"
	AttrScopePrefix       = "otel.scope.attr."
	AttrJSON              = "otel.json"        // String, JSON array of the names of attributes that are JSON texts
	AttrAnyValue          = "otel.anyvalue"    // String, JSON array of the names of attributes that are AnyValue texts
	AttrDurations         = "entrace.duration" // String, JSON array of the names of attributes that are durations

	AttrTime      = "entrace.time"      // String, RFC 3339, on an entry whose time does not fit into int64 nanoseconds
	AttrContinued = "entrace.continued" // Bool, on a span that began in an earlier file
	AttrRotated   = "entrace.rotated"   // Bool, on the NameEnd of a file if another file continues the trace
	AttrDropped   = "dropped"           // U64, on NameEnd and NameRecovered: number of lost entries
	AttrDamage    = "damage"            // String, on NameRecovered: why the complete entries end, for example CutTorn
	AttrTruncated = "!TRUNCATED"        // Bool true, on an entry that was shortened

	AttrDroppedFrom = "dropped.from" // String, on NameEnd, RFC 3339 in UTC: when the first entry was lost because the disk was full or slow
	AttrDroppedTo   = "dropped.to"   // String, on NameEnd: the same for the last entry that was lost

	// DefaultTraceFlags are the flags of a span or link without AttrTraceFlags. They mean that the span is sampled,
	// and that its parent is known to be local or absent.
	DefaultTraceFlags = 0x101
	// DefaultLogFlags are the flags of a log record that has a span but no AttrTraceFlags. They mean sampled. A log
	// record without a span has the flags 0.
	DefaultLogFlags = 1
)

// Names of entries.
const (
	NameLink      = "link"
	NameEnd       = "entrace.end"
	NameRecovered = "entrace.recovered" // last entry of a file that recovery finished after a kill, or saved after damage
	NameException = "exception"         // event with the reason why its span failed
	NameCrash     = "crash"             // log record with the reason why a process died, and its stacks
	NameTrace     = "entrace.trace"     // entry with the reason why a flight recorder made the file
	NameLines     = "entrace.lines"     // entry with the numbers of lines of each shape, in a log that was converted
)

// The attributes of a NameTrace that identify the process that recorded the file.
const (
	AttrProcessID = "process.pid" // U64
	AttrHostName  = "host.name"   // String
)

// The reasons why the complete entries of a damaged or growing file end.
const (
	CutClean    = "clean"     // at the end of the file
	CutTorn     = "torn"      // the file ends within an entry
	CutZeroTail = "zero_tail" // only zero bytes follow
	CutCorrupt  = "corrupt"   // the bytes that follow are not an entry
)

// Attributes that say how a process was started, and from which source its program was built.
const (
	AttrCommand        = "process.command_args"      // String, JSON array
	AttrFolder         = "process.working_directory" // String
	AttrServiceVersion = "service.version"           // String
	AttrRevision       = "vcs.ref.head.revision"     // String
	AttrModified       = "build.vcs.modified"        // Bool, true if the source had changes that were not committed
)

// RunService is the service.name of the span that entrace run records for a command.
const RunService = "entrace run"

const escapePrefix = "otel.attr."

// Reserved reports whether the name has a meaning in this project, so that a user's attribute must not be stored
// under it.
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

// UserName is the inverse of EscapeName: it returns the name that the user gave to a stored
// attribute. ok is false if the attribute was not set by the user.
func UserName(stored string) (name string, ok bool) {
	if name, ok := strings.CutPrefix(stored, escapePrefix); ok {
		return name, true
	}
	return stored, !Reserved(stored)
}
