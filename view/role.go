package view

import (
	"github.com/entrace-go/entrace/format"
	"github.com/entrace-go/entrace/internal/columns"
	"github.com/entrace-go/entrace/internal/otel"
)

// A Role says which kind of thing a row is, such as a span or a log record.
type Role uint8

// The roles of rows.
const (
	RoleOther    Role = iota // none of the others; what another program wrote
	RoleRoot                 // the root, row 0
	RoleResource             // what spans and log records of a service hang below
	RoleSpan                 // an OpenTelemetry span
	RoleFolded               // a row that has become part of another one; it is not in the tree
	RoleEvent                // a span event
	RoleLink                 // a span link
	RoleLog                  // a log record
	RoleRecorder             // the recorder's own, such as entrace.end
)

var roleNames = [...]string{"other", "root", "resource", "span", "folded", "event", "link", "log", "recorder"}

// String returns the role in words.
func (r Role) String() string {
	if int(r) < len(roleNames) {
		return roleNames[r]
	}
	return "unknown"
}

// Flags are what a row says in a few bits.
type Flags uint16

const (
	roleBits   = 0xf
	levelShift = 4
	levelBits  = 7 << levelShift
	// Those of the kind and the status of a span are in package columns.

	flagMessage   = 1 << 12
	flagOpen      = 1 << 13
	flagContinued = 1 << 14
	flagMissing   = 1 << 15
)

// Role returns what the row is.
func (f Flags) Role() Role { return Role(f & roleBits) }

// Level returns the level of the row's entry.
func (f Flags) Level() format.Level { return format.Level(f & levelBits >> levelShift) }

// Kind returns the kind of a span: unspecified, internal, server, client, producer or consumer.
func (f Flags) Kind() string { return otel.SpanKind(columns.Kind(uint16(f))).String() }

// Status returns the status of a span, as it was recorded: unset, ok or error.
func (f Flags) Status() string { return otel.Status(columns.Status(uint16(f))).String() }

// Failed reports whether the row is a span that failed: its status is error, or it is unset and
// the span has an event named "exception".
func (f Flags) Failed() bool {
	return f.Role() == RoleSpan && f&columns.StatusBits>>columns.StatusShift >= Flags(otel.StatusError)
}

// HasMessage reports whether the row has a message.
func (f Flags) HasMessage() bool { return f&flagMessage != 0 }

// Open reports whether the row is a span that does not say how long it took.
func (f Flags) Open() bool { return f&flagOpen != 0 }

// Missing reports whether the row names a span as its parent that is not there.
func (f Flags) Missing() bool { return f&flagMissing != 0 }
