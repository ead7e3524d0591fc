package format

import (
	"errors"
	"fmt"
	"io"
	"strconv"

	"github.com/entrace-go/entrace/internal/file/osfile"
)

// noEntry is the field Entry of an error outside of all entries: in the magic, the offsets or the pool.
const noEntry = -1

var (
	// ErrTruncated matches every [TruncatedError]: the input ends too early. A file that ends too early is not called
	// corrupt, because every program that crashes can leave such a file.
	ErrTruncated error = truncated{}
	// ErrNotEntrace is returned for input that is not an ENTRACE file.
	ErrNotEntrace = errors.New("format: not an ENTRACE file")
	// ErrUnsupported is returned for a disk version or storage format that the called function does not know or
	// cannot process.
	ErrUnsupported = errors.New("format: not supported")

	// ErrClosed is returned by the methods of a value that was closed.
	ErrClosed = errors.New("format: closed")
	// ErrLocked is returned for a file that a living process is writing.
	ErrLocked = errors.New("format: in use by a living process")
	// ErrNotRegular is returned for a path that is a folder, a symbolic link
	// that must not be followed, a pipe or a device.
	ErrNotRegular = osfile.ErrNotRegular
	// ErrShrunk is returned if a file became shorter while it was open.
	ErrShrunk = errors.New("format: the file was truncated while it was open")
	// ErrFull is returned if a file has the maximum number of entries, which 32-bit ids allow.
	ErrFull = errors.New("format: the file is full: 4294967295 entries")
	// ErrTooLarge is returned for an entry that is larger than the limit of a recorder.
	ErrTooLarge = errors.New("format: entry too large")
	// ErrInvalid is returned for an entry whose level is unknown, or whose parent is not an earlier
	// entry.
	ErrInvalid = errors.New("format: invalid entry: unknown level, or a parent that is not an earlier entry")
)

// The causes of a [CorruptError].
var (
	errBadNumber           = errors.New("invalid variable-length integer")
	errBadLevel      error = invalid("unknown level")
	errBadOption           = errors.New("the option tag must be 0 or 1")
	errBadBool             = errors.New("the bool must be 0 or 1")
	errBadKind             = errors.New("unknown value kind")
	errBadParent     error = invalid("the parent is not an earlier entry")
	errBadPool             = errors.New("the lists of children do not form a tree of the entries")
	errBadOffset           = errors.New("no entry begins at this offset")
	errAttrMismatch        = errors.New("an entry has more attribute names than values, or fewer")
	errTrailingBytes       = errors.New("extra bytes after the entry")
	errTooMany             = errors.New("too many attributes")
)

// An invalid is an error that matches [ErrInvalid]. Its text is the reason.
type invalid string

func (e invalid) Error() string   { return string(e) }
func (invalid) Is(err error) bool { return err == ErrInvalid }

type truncated struct{}

func (truncated) Error() string { return "format: unexpected end" }
func (truncated) Unwrap() error { return io.ErrUnexpectedEOF }

// A TruncatedError reports that the input stops within an entry or before the first entry. All earlier entries are
// complete. The error matches [ErrTruncated] and [io.ErrUnexpectedEOF].
type TruncatedError struct {
	Offset   int64  // the start of the incomplete entry in the file; outside of entries, the start of the incomplete field
	Entry    int64  // id of the incomplete entry, or -1 outside of entries
	Field    string // the field in which the input stops, if known
	ZeroTail bool   // all bytes from Offset on are zero
	Empty    bool   // the file has no bytes

	length *lengthError // set if the input claims a length that is larger than the rest of the input
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

// A CorruptError reports bytes that no valid trace contains, and their position.
type CorruptError struct {
	Offset int64  // from the start of the file
	Entry  int64  // the entry's id, or -1 outside of entries
	Field  string // as in the layout in the package documentation: "attr_values[2]"
	Err    error  // the cause; some causes match [ErrInvalid] or [ErrFull]
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

// A lengthError reports a length that is larger than the rest of the input, or larger than a limit.
type lengthError struct {
	Claimed   uint64 // the claimed number of items or bytes
	Remaining uint64 // at most this number of items or bytes is possible
}

func (e *lengthError) Error() string {
	return fmt.Sprintf("length %d, but there is room for at most %d", e.Claimed, e.Remaining)
}

// A tagError adds the wrong number to another error.
type tagError struct {
	tag uint64
	err error
}

func (e *tagError) Error() string { return fmt.Sprintf("%v: %d", e.err, e.tag) }
func (e *tagError) Unwrap() error { return e.err }
