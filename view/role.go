package view

import (
	"github.com/entrace-go/entrace/format"
	"github.com/entrace-go/entrace/internal/otel"
	"github.com/entrace-go/entrace/internal/read/columns"
)

// A Role is the kind of a row, such as a span or a log record.
type Role uint8

// The roles of rows.
const (
	RoleOther    Role = iota // none of the other roles; another program wrote the entry
	RoleRoot                 // the root, row 0
	RoleResource             // a resource: the ancestor of the spans and log records of a service
	RoleSpan                 // an OpenTelemetry span
	RoleFolded               // a row that is part of another row; it is not in the tree
	RoleEvent                // a span event
	RoleLink                 // a span link
	RoleLog                  // a log record
	RoleRecorder             // written by the recorder about itself, such as entrace.end
)

var roleNames = [...]string{"other", "root", "resource", "span", "folded", "event", "link", "log", "recorder"}

// String returns the name of the role.
func (r Role) String() string {
	if int(r) < len(roleNames) {
		return roleNames[r]
	}
	return "unknown"
}

// Flags holds the role of a row, and other properties that fit into a few bits.
type Flags uint16

const (
	levelShift = 4
	levelBits  = 7 << levelShift
	// The bits of the role, and of the kind and the status of a span, are defined in package columns.

	flagMessage   = 1 << 12
	flagOpen      = 1 << 13
	flagContinued = 1 << 14
	flagMissing   = 1 << 15
)

// Role returns the role of the row.
func (f Flags) Role() Role { return Role(f & columns.RoleBits) }

// Level returns the level of the row's entry.
func (f Flags) Level() format.Level { return format.Level(f & levelBits >> levelShift) }

// Severity returns the level to show for a row. For a failed span, it is ERROR, independent of the entry's level.
func (f Flags) Severity() format.Level {
	if f.Failed() {
		return format.LevelError
	}
	return f.Level()
}

// Kind returns the kind of a span: unspecified, internal, server, client, producer or consumer.
func (f Flags) Kind() string { return otel.SpanKind(columns.Kind(uint16(f))).String() }

// Status returns the recorded status of a span: unset, ok or error.
func (f Flags) Status() string { return otel.Status(columns.Status(uint16(f))).String() }

// Failed reports whether the row is a span that failed. A span failed if its status is error, or if its status is
// unset and it has an event named "exception" or a log record with the otel.status_code ERROR.
func (f Flags) Failed() bool {
	return f.Role() == RoleSpan && f&columns.StatusBits>>columns.StatusShift >= Flags(otel.StatusError)
}

// HasMessage reports whether the row has a message.
func (f Flags) HasMessage() bool { return f&flagMessage != 0 }

// Open reports whether the row is a span that has not ended and therefore has no duration.
func (f Flags) Open() bool { return f&flagOpen != 0 }

// Missing reports whether the row names a parent span that is not in the view.
func (f Flags) Missing() bool { return f&flagMissing != 0 }

// IsError reports whether a row counts as an error. Failed spans do, and rows of level error, except events. Events
// only explain why their span failed.
func (f Flags) IsError() bool {
	return f.Failed() || f.Level() >= format.LevelError && f.Role() != RoleEvent
}

// MarshalText implements [encoding.TextMarshaler].
func (r Role) MarshalText() ([]byte, error) { return []byte(r.String()), nil }
