package viewer

import (
	"cmp"
	"context"
	"fmt"

	"github.com/entrace-go/entrace/internal/analyze"
	"github.com/entrace-go/entrace/query"
	"github.com/entrace-go/entrace/view"
)

// maxTop is the largest number of items in a list of an overview.
const maxTop = 8

// top answers with an overview.
func (q *request) top(ctx context.Context) (any, error) {
	f, err := q.selected(ctx, "{}")
	if err != nil {
		return nil, err
	}
	t, err := q.overview(ctx, "{}", f.rows)
	if err != nil {
		return nil, err
	}
	return q.encoded(ctx, t, nil)
}

// overview returns the overview of the rows that a query selects. The answers of overview and explain share it.
func (q *request) overview(ctx context.Context, text string, rows view.Set[view.Row]) (*analyze.Overview, error) {
	return remember(&q.results, "overview", q.Get("window")+" "+text, func() (*analyze.Overview, error) {
		return analyze.Top(ctx, q.v, rows, maxTop, q.window().options())
	})
}

// explain answers why the requests of a part of the time are slow or fail. It compares:
//   - the requests with the requests of the other side, if the HTTP request names another side;
//   - otherwise, if the HTTP request has a query, the requests that the query selects with other requests of the
//     same names;
//   - otherwise the requests after a change with the requests before the change.
func (q *request) explain(ctx context.Context) (any, error) {
	text := q.Get("q")
	var clocks []analyze.Clock
	if len(q.clocks()) > 0 && q.handler.options.Correct != nil {
		clocks = analyze.Clocks(q.v, q.names)
		corrected, err := q.handler.correct(ctx, q.state)
		if err != nil {
			return nil, err
		}
		q.state = corrected
	}
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
	top, err := q.overview(ctx, cmp.Or(text, "{}"), f.rows)
	if err != nil {
		return nil, err
	}
	question := &analyze.Question{Top: top, Before: before, Now: []query.Run{q.run(f.rows)}, Since: analyze.NoTime, Alike: text != "", Deaths: q.handler.deaths(q.v), Clocks: clocks}
	x, err := analyze.Explain(ctx, question)
	if err != nil {
		return nil, err
	}
	return q.encoded(ctx, x, nil)
}

// killed is the Word of the State of a file whose process died before it closed the file.
const killed = "killed"

// deaths returns the killed processes of the files of a view.
func (h *Handler) deaths(v *view.View) (list []analyze.Death) {
	_, states := h.states(v)
	for file, s := range states {
		if s.Word == killed {
			list = append(list, analyze.Death{File: file, Reason: s.Reason})
		}
	}
	return list
}

const (
	heatColumns, heatRows = 120, 40
	maxHeat               = 1000 // the maximum number of columns or rows
)

// heat answers with a map of the requests in a window. The map has n columns for the starts of the requests, and m
// rows for their durations.
func (q *request) heat(ctx context.Context) (any, error) {
	n, m := q.number("n", heatColumns, maxHeat), q.number("m", heatRows, maxHeat)
	if q.err != nil {
		return nil, q.err
	}
	x, err := q.requests(ctx)
	if err != nil {
		return nil, err
	}
	return q.encoded(ctx, x.Heat(n, max(1, m)), nil)
}

// choice answers with the properties that the requests in a box of the map share. A box is "FROM,TO,LEAST,MOST" in
// nanoseconds. With an "f" at the end of the box, the answer has only failed requests.
func (q *request) choice(ctx context.Context) (any, error) {
	var b analyze.Box
	failed := ""
	if n, _ := fmt.Sscanf(q.Get("box"), "%d,%d,%d,%d%s", &b.From, &b.To, &b.Least, &b.Most, &failed); n < 4 {
		return nil, badRequest("parameter \"box\" must be four numbers")
	}
	b.Failed = failed == "f"
	x, err := q.requests(ctx)
	if err != nil {
		return nil, err
	}
	c, err := x.Choose(ctx, b)
	if err != nil {
		return nil, err
	}
	return q.encoded(ctx, c, nil)
}

// requests returns the requests in the window.
func (q *request) requests(ctx context.Context) (*analyze.Requests, error) {
	return remember(&q.results, "requests", q.Get("window"), func() (*analyze.Requests, error) {
		f, err := q.selected(ctx, "{}")
		if err != nil {
			return nil, err
		}
		q.forget("requests") // keep only one result, because it may be large
		return analyze.RequestsOf(ctx, q.v, f.rows)
	})
}
