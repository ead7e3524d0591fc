package columns

// The bits of a view.Flags that hold the role of a row, and the kind and the status of a span.
const (
	RoleBits    = 0xf
	RoleSpan    = 3 // is view.RoleSpan
	KindShift   = 7
	KindBits    = 7 << KindShift
	StatusShift = 10
	StatusBits  = 3 << StatusShift
	// StatusExcepted marks a span whose status is unset and that has an exception.
	StatusExcepted = 3
)

// Kind returns the kind of a span, as numbered in internal/otel.
func Kind(flags uint16) uint8 { return uint8(flags & KindBits >> KindShift) }

// Status returns the recorded status of a span, as numbered in internal/otel.
func Status(flags uint16) uint8 {
	if s := uint8(flags & StatusBits >> StatusShift); s != StatusExcepted {
		return s
	}
	return 0
}
