package measureme

import (
	"errors"
	"fmt"
	"strconv"

	"github.com/entrace-go/entrace/format"
)

// None is the page or the event of an [Error] that lies in none.
const None = -1

// What is wrong at the place that an [Error] names.
var (
	ErrMagic    = errors.New("not a measureme file or stream")
	ErrTag      = errors.New("unknown page tag")
	ErrPageSize = errors.New("a page of no bytes")
	ErrHole     = errors.New("zero bytes where a page was promised but never written")
	ErrTime     = errors.New("the event ends before it starts")
	ErrString   = errors.New("the string table has no such string")
	ErrCycle    = errors.New("strings refer to each other too deeply")
	ErrTooLarge = errors.New("the text is too large for the file it is in")
	ErrMetadata = errors.New("the metadata is missing or no JSON object")
	ErrTooMany  = errors.New("more events than a trace has room for")
)

// ErrRange is returned by [Encode] for a trace whose times the format cannot
// hold: it has 48 bits of nanoseconds, which are 78 hours, and begins after 1969.
var ErrRange = errors.New("measureme: the trace spans more than 78 hours, or begins before 1970")

// An Error says where a file is damaged. What is whole is read in spite of it.
type Error struct {
	Offset int64 // bytes from the start of the file
	Page   int64 // the number of the page, from 0, or [None]
	Event  int64 // the number of the event record, from 0, or [None]
	Err    error // one of this package's errors, a [*VersionError], or [format.ErrTruncated]
}

func (e *Error) Error() string {
	s := "at offset " + strconv.FormatInt(e.Offset, 10) + ": "
	if e.Event >= 0 {
		s = "event " + strconv.FormatInt(e.Event, 10) + " " + s
	} else if e.Page >= 0 {
		s = "page " + strconv.FormatInt(e.Page, 10) + " " + s
	}
	return s + e.Err.Error()
}

// Unwrap returns Err.
func (e *Error) Unwrap() error { return e.Err }

// A VersionError names the version of a file or of a stream in it that cannot be
// read.
type VersionError struct{ Version, Want uint32 }

func (e *VersionError) Error() string {
	if e.Want != 0 {
		return fmt.Sprintf("the stream has version %d, the file %d", e.Version, e.Want)
	}
	return fmt.Sprintf("the file has version %d, known are %d and %d", e.Version, oldVersion, version)
}

// truncated is the error of a file that just stops at offset.
func truncated(offset, page int64) *Error {
	return &Error{Offset: offset, Page: page, Event: None, Err: format.ErrTruncated}
}
