package format

import "github.com/entrace-go/entrace/internal/placer"

// The attributes that carry what an entry has no place for. Part of the product's
// format: see the tables in the documentation of packages exporter and
// slogadapter.
const (
	AttrTraceID      = "trace_id"       // String, 32 hex digits
	AttrSpanID       = "span_id"        // String, 16 hex digits
	AttrParentSpanID = "parent_span_id" // String, 16 hex digits
	AttrTime         = "time_unix_nano" // U64, I64 before 1970
	AttrDuration     = "duration_nano"  // U64
	AttrTraceFlags   = "trace_flags"    // U64
	AttrLogLevel     = "log.level"      // String

	AttrKind              = "otel.kind"
	AttrStatusCode        = "otel.status_code"
	AttrStatusDescription = "otel.status_description"
	AttrTraceState        = "otel.trace_state"
	AttrClockSkew         = "otel.clock_skew_nano"
	AttrSchemaURL         = "otel.resource.schema_url"
	AttrScopeVersion      = "otel.scope.version"
	AttrScopeSchemaURL    = "otel.scope.schema_url"
	AttrScopePrefix       = "otel.scope.attr."
	AttrScopeDropped      = "otel.scope.dropped_attributes_count"
	AttrDroppedAttributes = "otel.dropped_attributes_count"
	AttrDroppedEvents     = "otel.dropped_events_count"
	AttrDroppedLinks      = "otel.dropped_links_count"
	AttrEvent             = "otel.event"
	AttrLinkTraceID       = "otel.link.trace_id"
	AttrLinkSpanID        = "otel.link.span_id"
	AttrLinkTraceState    = "otel.link.trace_state"
	AttrLinkFlags         = "otel.link.flags"
	AttrJSON              = "otel.json"     // String, a JSON array of the names of attributes that are JSON texts
	AttrAnyValue          = "otel.anyvalue" // likewise, OTLP/JSON AnyValue texts

	AttrContinued = "entrace.continued" // Bool, on a span that began in an earlier file
	AttrRotated   = "entrace.rotated"   // Bool, on the end of a file that another one follows
	AttrDamage    = "damage"            // String, a CutReason, on the NameRecovered of an ET that was damaged, or of a corrupt file
	AttrDurations = "entrace.duration"  // String, a JSON array of the names of attributes that are durations, I64 of nanoseconds

	// DefaultTraceFlags is what an absent AttrTraceFlags or AttrLinkFlags means:
	// sampled, and the parent is known to be local or absent.
	DefaultTraceFlags = 0x101
	// DefaultLogFlags are the flags of a log record that has a span and no
	// AttrTraceFlags: sampled. Without a span and AttrTraceFlags the flags are 0.
	DefaultLogFlags = 1
)

// AttrTruncated is the attribute, Bool true, of an entry of which something was
// cut off.
const AttrTruncated = "!TRUNCATED"

// The names of entries that are not spans or log records of an application.
const (
	NameResource  = "resource"
	NameLink      = "link"
	NameSpanEnd   = "span end"
	NameException = "exception" // of an event that says why its span failed
	NameEnd       = "entrace.end"
	NameRecovered = "entrace.recovered" // the last one if recovery has finished the file of a writer that was killed, or saved what is whole in a damaged one
	NameCrash     = "crash"             // of the log record that says why a process died, and in which stacks
	NameTrace     = "entrace.trace"     // says why a flight recorder has made the file
)

// The attributes of a NameTrace that tell which process the file is of.
const (
	AttrProcessID = "process.pid" // U64
	AttrHostName  = "host.name"   // String
)

// UserAttributes returns the attributes of the application alone, under the names that it gave
// them, without those that describe the entry.
func (e *TraceEntry) UserAttributes() []Attribute {
	return e.AppendUserAttributes(make([]Attribute, 0, len(e.Attributes)))
}

// AppendUserAttributes appends what UserAttributes returns to own.
func (e *TraceEntry) AppendUserAttributes(own []Attribute) []Attribute {
	for i := range e.Attributes {
		if name, ok := UserName(e.Attributes[i].Name); ok {
			own = append(own, Attribute{name, e.Attributes[i].Value})
		}
	}
	return own
}

// UserName is the other direction: the user's name of a stored attribute, and
// whether it is one of the user's at all.
func UserName(stored string) (name string, ok bool) { return placer.UserName(stored) }

// IsEnd reports whether e marks the clean end of a file.
func (e *TraceEntry) IsEnd() bool { return e.Parent == 0 && e.Metadata.Name == NameEnd }

// IsRotated reports whether e is the end of a file that another one follows.
func (e *TraceEntry) IsRotated() bool {
	v, _ := e.Attribute(AttrRotated)
	return e.IsEnd() && v.Bool()
}

// IsRecovered reports whether e says that recovery has finished the file of a writer that was
// killed.
func (e *TraceEntry) IsRecovered() bool { return e.Parent == 0 && e.Metadata.Name == NameRecovered }
