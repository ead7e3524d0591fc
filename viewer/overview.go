package viewer

import (
	"context"
	"fmt"

	"github.com/entrace-go/entrace/query"
	"github.com/entrace-go/entrace/query/analyze"
)

// maxTop is the largest number of items in a list of an overview.
const maxTop = 8

// top answers with an overview.
func (h *Handler) top(ctx context.Context, q *request) (any, error) {
	f, err := q.selected(ctx, "{}")
	if err != nil {
		return nil, err
	}
	t, err := analyze.Top(ctx, q.v, f.rows, maxTop, q.window().options())
	if err != nil {
		return nil, err
	}
	return q.encoded(ctx, t, nil)
}

// explain answers why the requests of a part are slow or fail. It compares them with the other side, if
// any. Without another side but with a query, it compares the requests that the query selects with others
// of the same names. Otherwise it compares the requests after a change with the requests before the change.
func (h *Handler) explain(ctx context.Context, q *request) (any, error) {
	text := q.Get("q")
	f, err := q.selected(ctx, text)
	if err != nil {
		return nil, err
	}
	than, err := q.side(ctx)
	if err != nil {
		return nil, err
	}
	var before []query.Run
	if than != nil {
		before = append(before, than.run())
	}
	x, err := analyze.Explain(ctx, before, []query.Run{q.run(f.rows)}, analyze.NoTime, text != "")
	if err != nil {
		return nil, err
	}
	return q.encoded(ctx, x, nil)
}

const (
	heatColumns, heatRows = 120, 40
	maxHeat               = 1000 // the most columns or rows
)

// heat answers with a map of the requests in a window. The n columns are for the starts of the requests,
// and the m rows for their durations. With the parameter box, heat answers with the properties that the
// requests in a box share. The box is "FROM,TO,LEAST,MOST" in nanoseconds. An "f" at the end limits the
// answer to failed requests.
func (h *Handler) heat(ctx context.Context, q *request) (any, error) {
	x, err := remember(&q.results, "requests", q.Get("window"), func() (*analyze.Requests, error) {
		f, err := q.selected(ctx, "{}")
		if err != nil {
			return nil, err
		}
		q.forget("requests") // only one is cached, because it may be large
		return analyze.RequestsOf(ctx, q.v, f.rows)
	})
	if err != nil {
		return nil, err
	}
	if text := q.Get("box"); text != "" {
		var b analyze.Box
		failed := ""
		if n, _ := fmt.Sscanf(text, "%d,%d,%d,%d%s", &b.From, &b.To, &b.Least, &b.Most, &failed); n < 4 {
			return nil, badRequest("box is not four numbers")
		}
		b.Failed = failed == "f"
		c, err := x.Choose(ctx, b)
		if err != nil {
			return nil, err
		}
		return q.encoded(ctx, c, nil)
	}
	n, m := q.number("n", heatColumns, maxHeat), q.number("m", heatRows, maxHeat)
	if q.err != nil {
		return nil, q.err
	}
	return q.encoded(ctx, x.Heat(n, max(1, m)), nil)
}
