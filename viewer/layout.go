package viewer

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/entrace-go/entrace/internal/core/mapping"
	"github.com/entrace-go/entrace/query"
	"github.com/entrace-go/entrace/view"
)

// isShown reports whether a row has a line in the tree. Hits, errors and the time axis count only such rows. If a
// row has no line, for example a resource, the rows below it are shown in its place. A link is shown with its
// span. The last entry of a recorder has no line, because it only says that the file is whole.
func isShown(v *view.View, r view.Row) bool {
	switch v.Role(r) {
	case view.RoleSpan, view.RoleEvent, view.RoleLog, view.RoleOther:
		return true
	case view.RoleRecorder:
		return v.Name(r) != mapping.NameEnd && v.Name(r) != mapping.NameRecovered
	}
	return false
}

// A shape describes which rows of the tree are open.
type shape struct {
	root    view.Row   // show only this row and the rows below it; 0: all rows
	depth   int        // the number of levels that are open
	toggled []view.Row // sorted; rows that are closed in an open level, or open in a closed level
	only    string     // a query: show only the rows that it selects, and the rows above them
	window  window     // show only the rows that overlap it, and the rows above them
	least   int64      // omit spans that took fewer nanoseconds, with their log records and events
}

// maxToggled is the largest number of rows that a request can toggle.
const maxToggled = 4000

// shape reads the shape of a request from its parameters. The parameter x lists the toggled rows. Each number in
// it is the difference from the row before, in base 36.
func (q *request) shape() shape {
	h := shape{root: q.row("root"), depth: q.number("depth", 0, math.MaxInt32), only: q.Get("only")}
	at := uint64(0)
	if x := q.Get("x"); x != "" {
		for d := range strings.SplitSeq(x, ".") {
			n, err := strconv.ParseUint(d, 36, 32)
			at += n
			if err != nil || at >= uint64(q.v.Len()) || len(h.toggled) == maxToggled {
				q.fail("parameter \"x\" must be a list of rows")
				break
			}
			h.toggled = append(h.toggled, view.Row(at))
		}
	}
	h.window = q.window()
	if text := q.Get("least"); text != "" {
		var err error
		h.least, err = strconv.ParseInt(text, 10, 64)
		if err != nil || h.least < 0 {
			q.fail("parameter \"least\" must be a number of nanoseconds")
		}
	}
	return h
}

func (h *shape) isToggled(r view.Row) bool {
	_, is := slices.BinarySearch(h.toggled, r)
	return is
}

// A layout holds the visible rows of a shape, in order.
type layout struct {
	shape   shape
	ranks   *rankSet
	outside int // the number of omitted outermost rows: they do not overlap the window
}

// layout returns the layout of a shape.
func (s *state) layout(ctx context.Context, h shape) (*layout, error) {
	return remember(&s.results, "layout", fmt.Sprint(h), func() (*layout, error) { return s.layoutOf(ctx, h) })
}

func (s *state) layoutOf(ctx context.Context, h shape) (*layout, error) {
	part, outside, err := s.part(ctx, h)
	if err != nil {
		return nil, err
	}
	t := s.v.Tree()
	l := &layout{shape: h, ranks: newRankSet(t.Len())}
	var ends []int // the ends of the shown rows that contain the row at rank
	for rank, n := t.Rank(h.root), 0; rank < t.End(h.root); n++ {
		if n%(1<<16) == 0 && ctx.Err() != nil {
			return nil, ctx.Err()
		}
		r := t.Row(rank)
		for len(ends) > 0 && ends[len(ends)-1] <= rank {
			ends = ends[:len(ends)-1]
		}
		if !isShown(s.v, r) {
			rank++
			continue
		}
		if part != nil && !part.Has(r) {
			if len(ends) == 0 && h.window.isSet && (outside == nil || outside.Has(r)) {
				l.outside++
			}
			rank = t.End(r)
			continue
		}
		l.ranks.Add(rank)
		if below := t.End(r); below == rank+1 || (len(ends) < h.depth) == h.isToggled(r) {
			rank = below
		} else {
			ends = append(ends, below)
			rank++
		}
	}
	l.ranks.done()
	return l, nil
}

// part returns the rows that a shape shows if all levels are open, and all, the rows that it would show without
// the window. A nil set stands for all rows.
func (s *state) part(ctx context.Context, h shape) (part, all view.Set[view.Row], err error) {
	var rows view.Set[view.Row]
	if h.only != "" {
		f, err := s.found(ctx, h.only)
		if err != nil {
			return nil, nil, err
		}
		rows = f.rows
	}
	if h.least > 0 {
		rows = s.longer(rows, h.least)
	}
	if rows != nil {
		all = withAbove(s.v, rows)
	}
	if !h.window.isSet {
		return all, all, nil
	}
	inside, err := s.inside(ctx, h.window)
	if err != nil {
		return nil, nil, err
	}
	if rows != nil {
		inside = both(rows, inside)
	}
	return withAbove(s.v, inside), all, nil
}

// longer returns a set without the spans that took less than least nanoseconds, and without the log records and
// events of these spans. It keeps spans that failed or are open. If rows is nil, it begins with all rows.
func (s *state) longer(rows view.Set[view.Row], least int64) view.Set[view.Row] {
	out := s.v.NewSet()
	for r := range s.v.Rows() {
		if rows != nil && !rows.Has(r) {
			continue
		}
		of := r
		if s.v.Role(r) != view.RoleSpan {
			of = s.v.Parent(r)
		}
		if took, ended := s.v.Duration(of); ended && int64(took) < least && !s.v.Flags(of).IsError() {
			continue
		}
		out.Add(r)
	}
	return out
}

// finds is the kind of cached results that found uses.
const finds = "find"

// A found holds the rows that a query selects.
type found struct {
	rows    view.Set[view.Row]
	ranks   *rankSet
	outside int // the number of selected rows outside the window
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
	t := s.v.Tree()
	f := &found{rows: r.Rows, ranks: newRankSet(t.Len()), hints: r.Hints, words: q.Words()}
	for r := range f.rows.All() {
		if isShown(s.v, r) {
			f.ranks.Add(t.Rank(r))
		}
	}
	f.ranks.done()
	return f, nil
}
