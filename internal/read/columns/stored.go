package columns

import (
	"context"

	"github.com/entrace-go/entrace/format"
)

// Stored gives access to the entries of the files from which the rows of a view were made. Its methods are safe
// for concurrent use.
type Stored[Row ~uint32] interface {
	// Each calls fn for each row that is not folded, with its stored entry, in the order of row numbers, until fn
	// returns an error. The entry is valid until fn returns.
	Each(ctx context.Context, fn func(r Row, e *format.TraceEntry) error) error
	// Below returns the row of the parent that is recorded in e, the stored entry of row r. The view may have
	// moved row r below another parent.
	Below(r Row, e *format.TraceEntry) Row
	// HasEnd reports whether row r is a span whose end was written as a separate entry.
	HasEnd(r Row) bool
	// First returns the row into which r was folded, and true. A row is folded if it is a later half of a span, or
	// a copy of another row. If r is not folded, First returns r and false.
	First(r Row) (first Row, folded bool)
	// IsCopy reports whether row r is a copy of the row that First returns. That row has all data of r.
	IsCopy(r Row) bool
	// IsCorrected reports whether the view corrects times with a clock. If it does, they can differ from the times
	// in the files.
	IsCorrected() bool
}
