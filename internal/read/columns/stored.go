package columns

import (
	"context"

	"github.com/entrace-go/entrace/format"
)

// Stored gives access to the file entries from which the rows of a view were made. Its methods are safe for
// concurrent use.
type Stored[Row ~uint32] interface {
	// Each calls fn with each row and its stored entry, in the order of the row numbers, until fn
	// returns an error. It skips folded rows. The entry is valid until fn returns.
	Each(ctx context.Context, fn func(r Row, e *format.TraceEntry) error) error
	// Below returns the parent that was recorded for e, the stored entry of row r. In the view, row
	// r can have another parent.
	Below(r Row, e *format.TraceEntry) Row
	// HasEnd reports whether row r is a span with a separate end entry, written after the span.
	HasEnd(r Row) bool
	// First returns the row into which r was folded, and true. A row is folded if it is a later half
	// of a span or a copy of another row. If r is not folded, First returns r and false.
	First(r Row) (first Row, folded bool)
	// IsCopy reports whether row r is a copy of the row that First returns. The returned row has all the data of r.
	IsCopy(r Row) bool
	// IsCorrected reports whether the view corrects times with a clock, so that they can differ
	// from the times in the files.
	IsCorrected() bool
}
