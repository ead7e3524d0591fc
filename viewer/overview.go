package viewer

import (
	"cmp"
	"context"
	"fmt"
	"net/url"

	"github.com/entrace-go/entrace/query"
	"github.com/entrace-go/entrace/query/analyze"
	"github.com/entrace-go/entrace/view"
)

// rowsIn returns the rows in the window of a request, and the window as options of a query. Without a
// window, it returns all rows and nil.
func (s *state) rowsIn(ctx context.Context, values url.Values) (view.Set[view.Row], *query.Options, error) {
	w, err := s.windowOf(values)
	if err != nil {
		return nil, nil, err
	}
	f, err := s.foundIn(ctx, "{}", w)
	if err != nil {
		return nil, nil, err
	}
	return f.rows, w.options(), nil
}

// maxTop is the largest number of items in a list of an overview.
const maxTop = 8

// top answers with an overview.
func (h *Handler) top(ctx context.Context, s *state, values url.Values) (any, error) {
	rows, in, err := s.rowsIn(ctx, values)
	if err != nil {
		return nil, err
	}
	t, err := analyze.Top(ctx, s.v, rows, maxTop, in)
	if err != nil {
		return nil, err
	}
	return s.encoded(ctx, t, nil)
}

// explain answers why the requests of a part are slow or fail. It compares them with the other side, if
// any. Without another side but with a query, it compares the requests that the query selects with others
// of the same names. Otherwise it compares the requests after a change with the requests before the change.
func (h *Handler) explain(ctx context.Context, s *state, q url.Values) (any, error) {
	w, err := s.windowOf(q)
	if err != nil {
		return nil, err
	}
	text := q.Get("q")
	f, err := s.foundIn(ctx, cmp.Or(text, "{}"), w)
	if err != nil {
		return nil, err
	}
	than, err := s.sideOf(ctx, q, w)
	if err != nil {
		return nil, err
	}
	var before []query.Run
	if than != nil {
		before = append(before, than.run())
	}
	x, err := analyze.Explain(ctx, before, []query.Run{{View: s.v, Rows: f.rows}}, analyze.NoTime, text != "")
	if err != nil {
		return nil, err
	}
	return s.encoded(ctx, x, nil)
}

const (
	heatColumns, heatRows = 120, 40
	maxHeat               = 1000 // the most columns or rows
)

// heat answers with a map of the requests in a window. The n columns are for the starts of the requests,
// and the m rows for their durations. With the parameter box, heat answers with the properties that the
// requests in a box share. The box is "FROM,TO,LEAST,MOST" in nanoseconds. An "f" at the end limits the
// answer to failed requests.
func (h *Handler) heat(ctx context.Context, s *state, q url.Values) (any, error) {
	w, err := s.windowOf(q)
	if err != nil {
		return nil, err
	}
	x, err := remember(&s.results, "requests", fmt.Sprint(w), func() (*analyze.Requests, error) {
		f, err := s.foundIn(ctx, "{}", w)
		if err != nil {
			return nil, err
		}
		s.forget("requests") // only one is cached, because it may be large
		return analyze.RequestsOf(ctx, s.v, f.rows)
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
		return s.encoded(ctx, c, nil)
	}
	n, err := number(q, "n", heatColumns, maxHeat)
	if err != nil {
		return nil, err
	}
	m, err := number(q, "m", heatRows, maxHeat)
	if err != nil {
		return nil, err
	}
	return s.encoded(ctx, x.Heat(n, max(1, m)), nil)
}
