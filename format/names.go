package format

import "github.com/entrace-go/entrace/internal/core/mapping"

// Names of attributes for data for which an entry has no field. They are part of this project's own conventions:
// see the tables in the documentation of packages exporter and slogadapter.
const (
	AttrTraceID      = "trace_id"       // String, 32 hex digits
	AttrSpanID       = "span_id"        // String, 16 hex digits
	AttrParentSpanID = "parent_span_id" // String, 16 hex digits
	AttrTime         = "time_unix_nano" // U64, or I64 for a time before 1970
	AttrDuration     = "duration_nano"  // U64
)

// The names of entries that are neither spans nor log records of an application.
const (
	NameResource = "resource"
	NameSpanEnd  = "span end"
)

// UserAttributes returns the attributes that the application set, under their original names. It omits the
// attributes that describe the entry.
func (e *TraceEntry) UserAttributes() []Attribute {
	own := make([]Attribute, 0, len(e.Attributes))
	for i := range e.Attributes {
		if name, ok := mapping.UserName(e.Attributes[i].Name); ok {
			own = append(own, Attribute{name, e.Attributes[i].Value})
		}
	}
	return own
}

// IsEnd reports whether e marks the clean end of a file.
func (e *TraceEntry) IsEnd() bool { return e.Parent == 0 && e.Metadata.Name == mapping.NameEnd }

// IsAddedEnd reports whether a converter added e to mark the end of a file; the end that a recorder writes has
// attributes. IsAddedEnd is for converters of this module: an added end does not belong in other formats.
func (e *TraceEntry) IsAddedEnd() bool { return e.IsEnd() && len(e.Attributes) == 0 }

// IsRotated reports whether e marks the end of a file whose trace continues in another file.
func (e *TraceEntry) IsRotated() bool {
	v, _ := e.Attribute(mapping.AttrRotated)
	return e.IsEnd() && v.Bool()
}

// IsRecovered reports whether e is the entry that recovery appends to the file of a writer that was killed.
func (e *TraceEntry) IsRecovered() bool {
	return e.Parent == 0 && e.Metadata.Name == mapping.NameRecovered
}
