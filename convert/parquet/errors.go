package parquet

import (
	"errors"
	"fmt"
	"strconv"
)

// The causes of an error of [Decode], in addition to [format.ErrTruncated] and [format.ErrTooLarge].
var (
	errNotParquet  = errors.New("not a Parquet file")
	errColumns     = errors.New("not a table that entrace wrote")
	errUnsupported = errors.New("unsupported")
	errCorrupt     = errors.New("corrupt")
	errValue       = errors.New("invalid value")
	errOrder       = errors.New("the id must be larger than the id of the previous row")
	errEarly       = problem(errCorrupt, "the values end early")
	errPairs       = problem(errCorrupt, "the numbers of keys and of values differ")
)

func problem(err error, detail string) error { return fmt.Errorf("%w: %s", err, detail) }

// field returns the name of a column for an error.
func field(column string) string { return "column " + strconv.Quote(column) }

// convertError converts a panic or an error of the Parquet library to an error of this package. Damaged input causes
// such panics.
func convertError(err *error) {
	if r := recover(); r != nil {
		*err = problem(errCorrupt, fmt.Sprint(r))
	} else if *err != nil && !errors.Is(*err, errCorrupt) && !errors.Is(*err, errUnsupported) {
		*err = fmt.Errorf("%w: %w", errCorrupt, *err)
	}
}
