// Package analyze answers questions about a trace: what stands out in it ([Top]), what a request waited for
// ([Critical], [Measured], [Waits]), and how two recordings differ ([Compare]). The commands and the page of entrace
// view show these answers and compute none themselves.
//
//	q, err := query.Parse(`service = shop`)
//	…
//	r, err := q.Run(ctx, v, nil)
//	…
//	o, err := analyze.Top(ctx, v, r.Rows, 5, nil)
//	…
//	for _, p := range o.Patterns {
//		fmt.Println(p.Count, p.Pattern)
//	}
//
// The tags of an answer's fields are its keys in JSON. Keys that end in _nano hold nanoseconds as int64. All other
// numbers are at most 2^53. An unknown [Time] and row 0 are null; a list is never null. A [Form] determines how the
// rows and tables of an answer are encoded: the commands write all of a row, the page only the parts that it shows.
//
// All functions are safe for concurrent use. The caller owns the returned values.
package analyze
