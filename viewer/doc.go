// Package viewer serves a trace to a browser: a page that shows it as a tree with a time axis, and
// asks it questions in the language of package query.
//
//	t, err := convert.Open(ctx, []string{"app.et"}, nil)
//	…
//	h := viewer.New(t.View(), &viewer.Options{Base: "/trace", Names: t.Name})
//	http.Handle("/trace/", h)
//
// The handler answers GET and HEAD alone and changes no file. Whoever mounts it says who may see
// the trace ([Options].Authorize) and by which names the server may be called ([Options].Hosts);
// 'entrace view' has a token of its own for each run, and listens on the loopback interface.
//
// # What it serves
//
// The page, its script and its style need no authorization; they hold nothing of the trace.
// Everything else does, unknown paths included:
//
//	api/meta            what the trace is: files, services, times, and a fingerprint
//	api/top             what is most conspicuous in it
//	api/rows            rows of the tree that are visible, as columns
//	api/entry?row=      everything about a row
//	api/row?id=FILE#ID  the row of an entry
//	api/logs?row=       log records at and below a row, by time
//	api/find?q=         how many rows a query selects, and the next one
//	api/complete?q=     what can be written at a place of a query
//	api/events          a stream that says when the trace has grown
//
// A row is its number in the view; it stays the same while the trace grows.
package viewer
