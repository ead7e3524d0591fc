package columns

// Where the kind and the status of a span are in a view.Flags, which says them in words.
const (
	KindShift   = 7
	KindBits    = 7 << KindShift
	StatusShift = 10
	StatusBits  = 3 << StatusShift
	// StatusExcepted stands for a status that is unset, of a span that has an exception.
	StatusExcepted = 3
)

// Kind returns the kind of a span, a number of internal/otel.
func Kind(flags uint16) uint8 { return uint8(flags & KindBits >> KindShift) }

// Status returns the status of a span as it was recorded, a number of internal/otel.
func Status(flags uint16) uint8 {
	if s := uint8(flags & StatusBits >> StatusShift); s != StatusExcepted {
		return s
	}
	return 0
}
