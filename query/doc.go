// Package query selects rows of a view and computes tables from them; its API may change until v0.2.
// docs/query.md describes the language of queries. It resembles TraceQL, but works on whole files.
//
//	q, err := query.Parse(`{ name = "GET /cart" } >> { span:failed }`)
//	…
//	r, err := q.Run(ctx, v, nil)
//	…
//	for _, row := range query.InTime(v, r.Rows) {
//		fmt.Println(v.Name(row))
//	}
//
// A query is compiled to functions that remove rows from a set of rows, in blocks of 4,096 rows and
// on all cores. Conditions on columns are evaluated first, then conditions on attributes, then
// conditions that need the entries. An attribute becomes a column of the view when a query first
// uses it.
//
// A [Query] is safe for concurrent use: several goroutines can run it at the same time.
package query
