package input

import "strconv"

// An Error says where an input is damaged or truncated. The content before this position was read.
type Error struct {
	Offset int64  // offset in the input, in bytes
	Unit   string // the damaged part, for example "packet 3"; "" if unknown
	Field  string // the damaged field of the part, for example "attributes[2]"; "" if unknown
	Err    error  // the reason; [format.ErrTruncated] if the input ends too early
}

func (e *Error) Error() string {
	s := "at offset " + strconv.FormatInt(e.Offset, 10) + ": "
	if e.Unit != "" {
		s = e.Unit + " " + s
	}
	if e.Field != "" {
		s += e.Field + ": "
	}
	return s + e.Err.Error()
}

// Unwrap returns Err.
func (e *Error) Unwrap() error { return e.Err }

// Unit returns the Unit of an [Error] for part n of a kind.
func Unit(kind string, n int64) string { return kind + " " + strconv.FormatInt(n, 10) }
