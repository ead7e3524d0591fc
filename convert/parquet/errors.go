package parquet

import (
	"errors"
	"strconv"
)

// What is wrong at the place that an [Error] names.
var (
	// ErrNotParquet means that the input is another kind of file.
	ErrNotParquet = errors.New("not a Parquet file")
	// ErrColumns means that the columns are not those of a table of entries.
	ErrColumns = errors.New("not a table of entries")
	// ErrUnsupported is a part of Parquet that this package does not read.
	ErrUnsupported = errors.New("unsupported")
	// ErrCorrupt is damage of the file itself.
	ErrCorrupt = errors.New("corrupt")
	// ErrValue is a value that no entry can have.
	ErrValue = errors.New("invalid value")
	// ErrOrder means that the rows are not in the order of their ids.
	ErrOrder = errors.New("the id is not larger than that of the row before")
)

// An Error says where a Parquet file cannot be read. What the rows before it hold
// is written.
type Error struct {
	Offset int64  // bytes from the start of the file to the page, or to the footer
	Row    int64  // from 0 on; -1 for what is in no row
	Column string // as in the file, "" for none
	Detail string // more about Err, or ""
	Err    error  // one of this package's errors, [format.ErrTruncated], or that of the input
}

func (e *Error) Error() string {
	s := "at offset " + strconv.FormatInt(e.Offset, 10) + ": "
	if e.Row >= 0 {
		s = "row " + strconv.FormatInt(e.Row, 10) + " " + s
	}
	if e.Column != "" {
		s += "column " + strconv.Quote(e.Column) + ": "
	}
	s += e.Err.Error()
	if e.Detail != "" {
		s += ": " + e.Detail
	}
	return s
}

// Unwrap returns Err.
func (e *Error) Unwrap() error { return e.Err }

// problem makes an error that gets its place further up.
func problem(err error, detail string) *Error { return &Error{Row: -1, Err: err, Detail: detail} }
