// Package viewer serves a trace to a browser; it is experimental. The page shows the trace as a tree with a time
// axis, and runs queries in the language of package query.
//
//	t, err := convert.Open(ctx, []string{"app.et"}, nil)
//	…
//	h := viewer.New(t.View(), &viewer.Options{Base: "/trace", Names: t.Name})
//	http.Handle("/trace/", h)
//
// The handler answers only GET and HEAD and changes no file. The program that mounts it decides who
// may see the trace ([Options].Authorize) and which host names requests may use ([Options].Hosts).
// 'entrace view' makes a new token for each run, and listens on the loopback interface.
//
// # What it serves
//
// The page, its script and its style need no authorization, because they contain nothing of the trace. All other
// paths need authorization, including unknown paths:
//
//	api/meta            properties of the trace: files, services, times, and a fingerprint
//	api/top             an overview: the slowest spans, errors and gaps
//	api/explain         why requests are slow or fail
//	api/heat            requests by start and duration
//	api/choice?box=     what the requests in a box of this map share
//	api/rows            rows of the tree that are visible
//	api/entry?row=      everything about a row
//	api/row?id=FILE#ID  the row of an entry
//	api/logs?row=       log records at and below a row, by time
//	api/talk?row=       the conversation with a model at and below a row
//	api/find?q=         how many rows a query selects, and the next one
//	api/folded?rows=    how many of the rows that a query selects are below some rows
//	api/complete?q=     the completions of a query at an offset
//	api/strip           how many rows begin in each part of the time
//	api/why?row=        a comparison of a span with others of its name, and what the slow ones share
//	api/critical?row=   the critical path of the outermost span above a row
//	api/facets?q=       the values of fields, and by how much the selected rows differ
//	api/flame           spans merged by the names above them
//	api/runtime         samples of the Go runtime: heap, goroutines, collections
//	api/table?q=        the table that a query computes, or a table of rows or of calls
//	api/events          a stream with an event whenever the trace has grown
//
// The parameter window limits an answer to the rows that overlap a part of the time.
//
// A row is identified by its number in the view. The number stays the same while the trace grows.
package viewer
