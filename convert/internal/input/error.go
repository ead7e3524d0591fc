package input

import "strconv"

// An Error says where an input is damaged, or where it stops in the middle. What is whole before it
// was read.
type Error struct {
	Offset int64  // bytes from where the input began
	Unit   string // the part that is damaged, such as "packet 3"; "" if it is none
	Field  string // what is damaged in it, such as "attributes[2]"; "" if that is unknown
	Err    error  // what is wrong there; [format.ErrTruncated] if the input just stops
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
