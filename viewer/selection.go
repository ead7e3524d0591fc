package viewer

import (
	"cmp"
	"context"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/entrace-go/entrace/internal/analyze"
	"github.com/entrace-go/entrace/query"
	"github.com/entrace-go/entrace/view"
)

// A window is a part of the time. Rows that do not overlap the window are omitted.
type window struct {
	from, to int64 // nanoseconds since 1970
	isSet    bool
}

// window reads the parameter window of a request.
func (q *request) window() window { return q.windowOf(q.Get("window")) }

// windowOf parses a window: two times in nanoseconds, as in "FROM,TO", or "last:N" for the last N nanoseconds of
// the trace.
func (q *request) windowOf(text string) window {
	if text == "" {
		return window{}
	}
	if last, ok := strings.CutPrefix(text, "last:"); ok {
		n, err := strconv.ParseInt(last, 10, 64)
		if err != nil || n <= 0 {
			q.fail("parameter \"window\" must be last:N, with N in nanoseconds")
		}
		x := q.whole()
		return window{x.to - int64(min(uint64(n), uint64(x.to-x.from))), x.to, true}
	}
	first, last, _ := strings.Cut(text, ",")
	from, ferr := strconv.ParseInt(first, 10, 64)
	to, terr := strconv.ParseInt(last, 10, 64)
	if ferr != nil || terr != nil || from > to || to-from < 0 { // to-from < 0 means that the length overflows
		q.fail("parameter \"window\" must be FROM,TO in nanoseconds")
	}
	return window{from, to, true}
}

// options returns query options that limit a query to the window, or nil if the window is not set.
func (w window) options() *query.Options {
	if !w.isSet {
		return nil
	}
	return &query.Options{From: time.Unix(0, w.from), To: time.Unix(0, w.to)}
}

// extent returns the extent of the shown rows at and below root. If the window is set, from and to are its times.
func (s *state) extent(root view.Row, w window) extent {
	if w.isSet {
		return extent{from: w.from, to: w.to}
	}
	if root == 0 {
		return s.whole()
	}
	return extentOf(s.v, analyze.Subtree(s.v, root))
}

// inside returns the rows that overlap a window.
func (s *state) inside(ctx context.Context, w window) (view.Set[view.Row], error) {
	return remember(&s.results, "inside", fmt.Sprint(w), func() (view.Set[view.Row], error) {
		return query.Overlapping(ctx, s.v, nil, w.from, w.to)
	})
}

// ranksIn returns the ranks whose rows overlap a window.
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

// finds is the kind of cached results that found uses.
const finds = "find"

// A found holds the rows that a query selects.
type found struct {
	rows    view.Set[view.Row]
	ranks   func() *rankSet // of the shown rows; computed by the first call, because many requests need only rows
	outside func() int      // the number of selected rows outside the window
	hints   []query.Hint
	words   []string // the free-text words of the query
}

// A tableError says that a query computes a table, but the page needs rows.
type tableError struct{ query string }

func (e *tableError) Error() string {
	return "the query computes a table, but the page shows rows: print the table with 'entrace stats'"
}

// found runs a query, or returns the result of an earlier run.
func (s *state) found(ctx context.Context, text string) (*found, error) {
	return remember(&s.results, finds, text, func() (*found, error) { return s.find(ctx, text) })
}

func (s *state) find(ctx context.Context, text string) (*found, error) {
	q, err := query.Parse(text)
	if err != nil {
		return nil, err
	}
	if q.MakesTable() {
		return nil, &tableError{text}
	}
	r, err := q.Run(ctx, s.v, nil)
	if err != nil {
		return nil, err
	}
	return &found{rows: r.Rows, ranks: s.shownRanks(r.Rows), outside: func() int { return 0 }, hints: r.Hints, words: q.Words()}, nil
}

// shownRanks returns a function that returns the ranks of the shown rows of a set.
func (s *state) shownRanks(rows view.Set[view.Row]) func() *rankSet {
	return sync.OnceValue(func() *rankSet {
		t := s.v.Tree()
		ranks := newRankSet(t.Len())
		for r := range rows.All() {
			if isShown(s.v, r) {
				ranks.Add(t.Rank(r))
			}
		}
		ranks.done()
		return ranks
	})
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
		f.ranks = s.shownRanks(f.rows)
		f.outside = func() int { return all.ranks().n - f.ranks().n }
		return &f, nil
	})
}

// selected returns the rows in the window of the request that a query selects. An empty query selects all rows.
func (q *request) selected(ctx context.Context, text string) (*found, error) {
	w := q.window()
	if q.err != nil {
		return nil, q.err
	}
	return q.foundIn(ctx, cmp.Or(text, "{}"), w)
}

// both returns the intersection of two sets of rows.
func both(a, b view.Set[view.Row]) view.Set[view.Row] {
	out := make(view.Set[view.Row], len(a))
	for i := range out {
		out[i] = a[i] & b[i]
	}
	return out
}

// withAbove returns the shown rows of a set and all rows above them.
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

// run returns rows of the view as one side of a comparison.
func (s *state) run(rows view.Set[view.Row]) query.Run { return query.Run{View: s.v, Rows: rows} }

// A side holds the rows with which the rows of a request are compared. They belong to this trace or to another
// trace.
type side struct {
	of   *state
	rows view.Set[view.Row]
}

func (d *side) run() query.Run { return d.of.run(d.rows) }

// side returns the rows with which a request compares its own rows. If the page has another trace, the side has rows
// of that trace: the rows that the query in the parameter than selects, or without than, the rows that the request's
// own query selects. If the page has no other trace, the side has the rows of this trace that the query in than
// selects. If there is neither another trace nor than, side returns nil.
func (q *request) side(ctx context.Context) (*side, error) {
	text := q.Get("than")
	switch {
	case q.against != nil:
		f, err := q.against.found(ctx, cmp.Or(text, q.Get("q"), "{}"))
		if err != nil {
			return nil, err
		}
		return &side{q.against, f.rows}, nil
	case text != "":
		f, err := q.selected(ctx, text)
		if err != nil {
			return nil, err
		}
		return &side{q.state, f.rows}, nil
	}
	return nil, nil //nolint:nilnil // there is none
}

// A selection holds the rows that a request is about: the rows that its query selects, or without a query the rows
// at and below root. In both cases, it has only rows that overlap the window.
type selection struct {
	key       string             // equal for the same query, root and window
	from, end int                // the ranks of the rows at and below root
	hits      view.Set[view.Row] // nil: there is no query
	inside    view.Set[view.Row] // the rows that overlap the window; nil means all rows
	window    window
	root      view.Row
}

// selection reads the parameters q, root and window of a request.
func (q *request) selection(ctx context.Context) (*selection, error) {
	w, root := q.window(), q.row("root")
	if q.err != nil {
		return nil, q.err
	}
	t, text := q.v.Tree(), q.Get("q")
	c := &selection{key: strconv.Itoa(int(root)) + " " + fmt.Sprint(w, text), from: t.Rank(root), end: t.End(root), window: w, root: root}
	if text != "" {
		f, err := q.selected(ctx, text)
		if err != nil {
			return nil, err
		}
		c.hits = f.rows
	}
	if w.isSet {
		var err error
		c.inside, err = q.inside(ctx, w)
		if err != nil {
			return nil, err
		}
	}
	return c, nil
}

func (c *selection) isInside(r view.Row) bool { return c.inside == nil || c.inside.Has(r) }
