package viewer

import (
	"cmp"
	"context"
	"fmt"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/entrace-go/entrace/query"
	"github.com/entrace-go/entrace/view"
)

// A window is a part of the time. Rows that do not overlap it are left out.
type window struct {
	from, to int64 // nanoseconds since 1970
	isSet    bool
}

// windowOf reads the parameter window of a request: two times in nanoseconds, as in "FROM,TO", or
// "last:N" for the last N nanoseconds of the trace.
func (s *state) windowOf(q url.Values) (window, error) {
	text := q.Get("window")
	if text == "" {
		return window{}, nil
	}
	if last, ok := strings.CutPrefix(text, "last:"); ok {
		n, err := strconv.ParseInt(last, 10, 64)
		if err != nil || n <= 0 {
			return window{}, badRequest("window is not a number of nanoseconds")
		}
		x := s.whole()
		return window{x.to - int64(min(uint64(n), uint64(x.to-x.from))), x.to, true}, nil
	}
	first, last, _ := strings.Cut(text, ",")
	from, ferr := strconv.ParseInt(first, 10, 64)
	to, terr := strconv.ParseInt(last, 10, 64)
	if ferr != nil || terr != nil || from > to || to-from < 0 { // the last condition is true if the length overflows
		return window{}, badRequest("window is not two times in nanoseconds")
	}
	return window{from, to, true}, nil
}

// options returns the options that limit a query to the rows of the window, or nil if the window is not
// set.
func (w window) options() *query.Options {
	if !w.isSet {
		return nil
	}
	return &query.Options{From: time.Unix(0, w.from), To: time.Unix(0, w.to)}
}

// inside returns the rows that overlap a window.
func (s *state) inside(ctx context.Context, w window) (view.Set[view.Row], error) {
	return remember(&s.results, "inside", fmt.Sprint(w), func() (view.Set[view.Row], error) {
		return query.Overlapping(ctx, s.v, nil, w.from, w.to)
	})
}

// ranksIn returns the ranks of a set whose rows overlap a window.
func (s *state) ranksIn(ctx context.Context, ranks *rankSet, w window) (*rankSet, error) {
	if !w.isSet {
		return ranks, nil
	}
	inside, err := s.inside(ctx, w)
	if err != nil {
		return nil, err
	}
	t := s.v.Tree()
	out := newRankSet(t.Len())
	for rank := range ranks.All() {
		if inside.Has(t.Row(rank)) {
			out.Add(rank)
		}
	}
	out.done()
	return out, nil
}

// foundIn returns the rows that a query selects in a window.
func (s *state) foundIn(ctx context.Context, text string, w window) (*found, error) {
	if !w.isSet {
		return s.found(ctx, text)
	}
	return remember(&s.results, "find in", fmt.Sprint(w, text), func() (*found, error) {
		all, err := s.found(ctx, text)
		if err != nil {
			return nil, err
		}
		inside, err := s.inside(ctx, w)
		if err != nil {
			return nil, err
		}
		f := *all
		f.rows = both(all.rows, inside)
		f.ranks, err = s.ranksIn(ctx, all.ranks, w)
		f.outside = all.ranks.n - f.ranks.n
		return &f, err
	})
}

// both returns the rows that two sets have in common.
func both(a, b view.Set[view.Row]) view.Set[view.Row] {
	out := make(view.Set[view.Row], len(a))
	for i := range out {
		out[i] = a[i] & b[i]
	}
	return out
}

// withAbove returns the shown rows of a set and the rows above them.
func withAbove(v *view.View, rows view.Set[view.Row]) view.Set[view.Row] {
	out := v.NewSet()
	for r := range rows.All() {
		if !isShown(v, r) {
			continue
		}
		for ; r != 0 && !out.Has(r); r = v.Parent(r) {
			out.Add(r)
		}
	}
	return out
}

// A side holds the rows that are compared with the rows of a query. They belong to this trace or to another
// one.
type side struct {
	of   *state
	rows view.Set[view.Row]
}

func (d *side) run() query.Run { return query.Run{View: d.of.v, Rows: d.rows} }

// sideOf returns the rows that a request compares its own rows with. If the page has another trace, these
// are rows of that trace: the rows that the query in the parameter than selects, or without it the rows
// that the request's own query selects. Otherwise they are the rows of this trace that the query in than
// selects. Without another trace and without than, sideOf returns nil.
func (s *state) sideOf(ctx context.Context, q url.Values, w window) (*side, error) {
	text := q.Get("than")
	switch {
	case s.against != nil:
		f, err := s.against.found(ctx, cmp.Or(text, q.Get("q"), "{}"))
		if err != nil {
			return nil, err
		}
		return &side{s.against, f.rows}, nil
	case text != "":
		f, err := s.foundIn(ctx, text, w)
		if err != nil {
			return nil, err
		}
		return &side{s, f.rows}, nil
	}
	return nil, nil //nolint:nilnil // there is none
}

// A selection holds the rows of a request: the rows that its query selects, or without a query the rows at
// and below root. In both cases, only rows that overlap the window count.
type selection struct {
	key       string             // equal for the same query, root and window
	from, end int                // the ranks of the rows at and below the row
	hits      view.Set[view.Row] // nil: there is no query
	inside    view.Set[view.Row] // the rows that overlap the window; nil: all
	skip      view.Set[view.Row] // rows that are left out with all below them; nil: none
	window    window
	root      view.Row
}

// selectionOf reads the parameters q, root and window of a request.
func (s *state) selectionOf(ctx context.Context, q url.Values) (*selection, error) {
	w, err := s.windowOf(q)
	if err != nil {
		return nil, err
	}
	root, err := s.rowOf(q, "root")
	if err != nil {
		return nil, err
	}
	t, text := s.v.Tree(), q.Get("q")
	c := &selection{key: strconv.Itoa(int(root)) + " " + fmt.Sprint(w, text), from: t.Rank(root), end: t.End(root), window: w, root: root}
	if root == 0 {
		c.end = t.Len()
	}
	if text != "" {
		f, err := s.foundIn(ctx, text, w)
		if err != nil {
			return nil, err
		}
		c.hits = f.rows
	}
	if w.isSet {
		if c.inside, err = s.inside(ctx, w); err != nil {
			return nil, err
		}
	}
	return c, nil
}

func (c *selection) isInside(r view.Row) bool { return c.inside == nil || c.inside.Has(r) }
