package columns

// Stored says how the rows of a view were made from the entries of its files. Its methods are safe for concurrent use.
type Stored[Row ~uint32] interface {
	// First returns the row into which r was folded, and true. A row is folded if it is a later half of a span, or
	// a copy of another row. If r is not folded, First returns r and false.
	First(r Row) (first Row, folded bool)
	// IsCopy reports whether row r is a copy of the row that First returns. The row that First returns has all data
	// of r.
	IsCopy(r Row) bool
	// SameResource reports whether two rows have equal resources, perhaps in different files, or both have no resource.
	SameResource(a, b Row) bool
	// IsCorrected reports whether the view corrects times with a clock. If it does, the times of rows can differ from
	// the times in the files.
	IsCorrected() bool
}
