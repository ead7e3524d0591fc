package input

import "strconv"

// An Error says where an input is damaged or truncated. The whole content before that position was read.
type Error struct {
	Offset int64  // bytes from the beginning of the input
	Unit   string // the damaged part, such as "packet 3"; "" if there is none
	Field  string // the damaged field of the part, such as "attributes[2]"; "" if unknown
	Err    error  // the kind of damage; [format.ErrTruncated] if the input ends too early
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

// Unit returns the Unit of an [Error] that is the n-th of its kind.
func Unit(kind string, n int64) string { return kind + " " + strconv.FormatInt(n, 10) }
