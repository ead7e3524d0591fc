// Package query selects rows of a view, and computes tables of them, in the language that
// docs/query.md describes: TraceQL's shape, for whole files.
//
//	q, err := query.Parse(`{ name = "GET /cart" } >> { span:failed }`)
//	…
//	r, err := q.Run(ctx, v, nil)
//	…
//	for _, row := range query.InTime(v, r.Rows) {
//		fmt.Println(v.Name(row))
//	}
//
// A query becomes functions that take from a set of rows, 4,096 at a time and on all cores, those
// that they do not want: what columns answer first, attributes next, and what needs the entries
// last. Attributes become columns of the view the first time that a query asks for them.
//
// A [Query] is safe for concurrent use, and so is running it.
package query
