package viewer

import (
	"context"
	"io"
	"slices"

	"github.com/entrace-go/entrace/internal/analyze"
)

// save answers with rows in the format that the parameter format names. With a query, it saves the selected rows.
// Without a query, it saves the rows at and below root. Rows that do not overlap the window are omitted.
func (q *request) save(ctx context.Context) (any, error) {
	format := q.Get("format")
	if q.handler.options.Save == nil || !slices.ContainsFunc(q.handler.options.Formats, func(f Format) bool { return f.Name == format }) {
		return nil, badRequest("the page cannot save rows in the format " + format)
	}
	c, err := q.selection(ctx)
	if err != nil {
		return nil, err
	}
	rows := c.hits
	if rows == nil {
		rows = q.v.NewSet()
		for r := range analyze.Subtree(q.v, c.root) {
			if c.isInside(r) {
				rows.Add(r)
			}
		}
	}
	return func(to io.Writer) error { return q.handler.options.Save(ctx, to, q.v, rows, format) }, nil
}
