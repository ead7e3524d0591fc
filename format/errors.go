package format

import (
	"errors"
	"fmt"
	"io"
	"strconv"

	"github.com/entrace-go/entrace/internal/osfile"
)

// noEntry is the entry of an error that lies in no entry: in the magic, the
// offsets or the pool.
const noEntry = -1

var (
	// ErrTruncated is what a [TruncatedError] is: the input just stops. Every
	// program that crashes leaves such a file, so it is not corrupt.
	ErrTruncated error = truncated{}
	// ErrNotEntrace is returned for input of another kind.
	ErrNotEntrace = errors.New("format: not an ENTRACE file")
	// ErrUnsupported is returned for a disk version or storage format that does not exist, or that
	// is not taken here.
	ErrUnsupported = errors.New("format: not supported")

	// ErrClosed is returned by what was closed before.
	ErrClosed = errors.New("format: closed")
	// ErrLocked is returned for a file that a living process is writing.
	ErrLocked = errors.New("format: in use by a living process")
	// ErrNotRegular is returned for a path that is a folder, a symbolic link
	// that must not be followed, a pipe or a device.
	ErrNotRegular = osfile.ErrNotRegular
	// ErrShrunk is returned when a file became shorter while it was open.
	ErrShrunk = errors.New("format: the file was truncated while it was open")
	// ErrFull is returned when a file holds all the entries that 32 bits count.
	ErrFull = errors.New("format: the file is full: 4294967295 entries")
	// ErrTooLarge is returned for an entry over the limit of a recorder.
	ErrTooLarge = errors.New("format: entry too large")
	// ErrInvalid is returned for an entry whose level is unknown, or whose parent is not an earlier
	// entry.
	ErrInvalid = errors.New("format: invalid entry: unknown level, or a parent that is not an earlier entry")
)

// What is wrong at the place that a [CorruptError] names.
var (
	errBadNumber           = errors.New("invalid variable-length integer")
	errBadLevel      error = invalid("unknown level")
	errBadOption           = errors.New("option tag is neither 0 nor 1")
	errBadBool             = errors.New("bool is neither 0 nor 1")
	errBadKind             = errors.New("unknown value kind")
	errBadParent     error = invalid("the parent is not an earlier entry")
	errBadPool             = errors.New("the pool is not a tree over the entries")
	errBadOffset           = errors.New("the offset is not where an entry begins")
	errAttrMismatch        = errors.New("names and values differ in number")
	errTrailingBytes       = errors.New("bytes left over behind the entry")
	errTooMany             = errors.New("more than the limit")
)

// An invalid error is [ErrInvalid], and says why.
type invalid string

func (e invalid) Error() string   { return string(e) }
func (invalid) Is(err error) bool { return err == ErrInvalid }

type truncated struct{}

func (truncated) Error() string { return "format: unexpected end" }
func (truncated) Unwrap() error { return io.ErrUnexpectedEOF }

// A TruncatedError says that the input stops within an entry. What comes before
// it is whole. errors.Is finds [ErrTruncated] and [io.ErrUnexpectedEOF] in it.
type TruncatedError struct {
	Offset   int64  // bytes from the start of the file to that of the cut entry, or of the field of no entry
	Entry    int64  // its id, or -1: none
	Field    string // the field in which the input stops, if known
	ZeroTail bool   // there are bytes left, but all of them are zero
	Empty    bool   // the file holds nothing

	length *lengthError // set when a length claims more than there is
}

func (e *TruncatedError) Error() string {
	s := place(e.Entry, e.Offset, e.Field)
	if e.Empty {
		return "the file is empty"
	}
	if e.ZeroTail {
		return s + "nothing but zero bytes from here on"
	}
	if e.length != nil {
		return s + "unexpected end: " + e.length.Error()
	}
	return s + "unexpected end"
}

// Unwrap makes errors.Is find [ErrTruncated].
func (e *TruncatedError) Unwrap() []error {
	if e.length != nil {
		return []error{ErrTruncated, e.length}
	}
	return []error{ErrTruncated}
}

// A CorruptError says where bytes are no trace.
type CorruptError struct {
	Offset int64  // bytes from the start of the file
	Entry  int64  // the entry's id, or -1: none
	Field  string // as in the package's layout: "attr_values[2]"
	Err    error  // what is wrong: [ErrInvalid], [ErrFull], or a mere text
}

func (e *CorruptError) Error() string { return place(e.Entry, e.Offset, e.Field) + e.Err.Error() }

// Unwrap returns Err.
func (e *CorruptError) Unwrap() error { return e.Err }

func place(entry, offset int64, field string) string {
	s := "at offset " + strconv.FormatInt(offset, 10) + ": "
	if entry >= 0 {
		s = "entry " + strconv.FormatInt(entry, 10) + " " + s
	}
	if field != "" {
		s += field + ": "
	}
	return s
}

// A lengthError says that a length claims more than there can be.
type lengthError struct {
	Claimed   uint64 // items or bytes
	Remaining uint64 // as many are left at most
}

func (e *lengthError) Error() string {
	return fmt.Sprintf("length %d, but at most %d are left", e.Claimed, e.Remaining)
}

// A tagError adds the offending number to one of the errors above.
type tagError struct {
	tag uint64
	err error
}

func (e *tagError) Error() string { return fmt.Sprintf("%v %d", e.err, e.tag) }
func (e *tagError) Unwrap() error { return e.err }
