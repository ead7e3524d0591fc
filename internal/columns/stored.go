package columns

import (
	"context"

	"github.com/entrace-go/entrace/format"
)

// Stored says how the rows of a view are stored as entries of files. Its methods are safe for
// concurrent use.
type Stored[Row ~uint32] interface {
	// Each calls fn for each row but those that are folded, in the order of their numbers, with
	// its entry as it is stored, until fn returns an error. The entry is valid until fn returns.
	Each(ctx context.Context, fn func(r Row, e *format.TraceEntry) error) error
	// Below returns the row that e, the entry of row r as it is stored, was written below. The
	// view can have it elsewhere.
	Below(r Row, e *format.TraceEntry) Row
	// HasEnd reports whether row r is a span whose end was written later than itself.
	HasEnd(r Row) bool
	// First returns the row that row r was folded into, or r, and whether it was: r is a later
	// half of that span, or a copy of that row.
	First(r Row) (first Row, folded bool)
	// IsCopy reports whether row r is a copy of the one that First returns, which has all that r
	// has.
	IsCopy(r Row) bool
	// IsCorrected reports whether the view has a clock, so that its times can be others than those
	// in the files.
	IsCorrected() bool
}
