package parquet

import (
	"errors"
	"fmt"
	"strconv"
)

// What is wrong at the place that an error of [Decode] names, besides [format.ErrTruncated] and
// [format.ErrTooLarge].
var (
	errNotParquet  = errors.New("not a Parquet file")
	errColumns     = errors.New("not a table of entries")
	errUnsupported = errors.New("unsupported")
	errCorrupt     = errors.New("corrupt")
	errValue       = errors.New("invalid value")
	errOrder       = errors.New("the id is not larger than that of the row before")
)

func problem(err error, detail string) error { return fmt.Errorf("%w: %s", err, detail) }

// field returns what an error calls a column.
func field(column string) string { return "column " + strconv.Quote(column) }

// contain makes panics and errors of the library, which damaged input causes, errors of this package.
func contain(err *error) {
	if r := recover(); r != nil {
		*err = problem(errCorrupt, fmt.Sprint(r))
	} else if *err != nil && !errors.Is(*err, errCorrupt) && !errors.Is(*err, errUnsupported) {
		*err = problem(errCorrupt, (*err).Error())
	}
}
