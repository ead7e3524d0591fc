package viewer

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/entrace-go/entrace/view"
)

// A form describes which rows of the tree can be visible, and which levels are open.
type form struct {
	root   view.Row // show only this row and the rows below it; 0: all rows
	depth  int      // the number of levels that are open
	only   string   // a query: show only the rows that this query selects, and the rows above them
	window window   // show only the rows that overlap the window, and the rows above them
	least  int64    // omit spans that took fewer nanoseconds, with their log records and events
}

// A shape describes which rows of the tree are open.
type shape struct {
	form

	toggled []view.Row // sorted; rows that are closed in an open level, or open in a closed level
}

// maxToggled is the largest number of rows that a request can toggle.
const maxToggled = 4000

// shape reads the shape of a request from its parameters. The parameter x lists the toggled rows. Each number in x is
// the difference from the previous row, in base 36.
func (q *request) shape() shape {
	h := shape{form: form{root: q.row("root"), depth: q.number("depth", 0, math.MaxInt32), only: q.Get("only")}}
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
	part    view.Set[view.Row] // the rows that are visible if all levels are open; nil means all
	ranks   *rankSet
	outside int // the number of outermost rows that are omitted because they do not overlap the window
}

const layouts = "layout" // the kind of cached results that layout uses

// layout returns the layout of a shape. If a layout of the same form is cached, the new layout is a copy of the
// cached layout with other rows below the toggled rows.
func (s *state) layout(ctx context.Context, h shape) (*layout, error) {
	return remember(&s.results, layouts, fmt.Sprint(h), func() (*layout, error) {
		for _, like := range s.all(layouts) {
			if l := like.(*layout); l.shape.form == h.form {
				return l.toggle(ctx, s.v, h.toggled)
			}
		}
		return s.layoutOf(ctx, h)
	})
}

func (s *state) layoutOf(ctx context.Context, h shape) (*layout, error) {
	part, all, err := s.part(ctx, h.form)
	if err != nil {
		return nil, err
	}
	l := &layout{shape: h, part: part, ranks: newRankSet(s.v.Tree().Len())}
	err = l.show(ctx, s.v, h.root, 0, func(r view.Row) {
		if h.window.isSet && (all == nil || all.Has(r)) {
			l.outside++
		}
	})
	l.ranks.done()
	return l, err
}

// toggle returns a copy of l with the given toggled rows in place of its own.
func (l *layout) toggle(ctx context.Context, v *view.View, toggled []view.Row) (*layout, error) {
	t := v.Tree()
	out := &layout{shape: shape{l.shape.form, toggled}, part: l.part, ranks: &rankSet{Set: slices.Clone(l.ranks.Set)}, outside: l.outside}
	var ranks []int // of the rows that are toggled in one of the layouts
	for _, r := range slices.Concat(l.shape.toggled, toggled) {
		if l.shape.isToggled(r) != out.shape.isToggled(r) {
			ranks = append(ranks, t.Rank(r))
		}
	}
	slices.Sort(ranks)
	end := 0
	for _, rank := range ranks {
		if rank < end || !out.ranks.Has(rank) {
			continue // the row is below one of the rows before, or it is not visible
		}
		r := t.Row(rank)
		end = t.End(r)
		out.ranks.remove(rank, end)
		if err := out.show(ctx, v, r, depth(v, r, l.shape.root, nil), nil); err != nil {
			return nil, err
		}
	}
	out.ranks.done()
	return out, nil
}

// depth returns the number of shown rows above a row, up to and including root. It stops at the first row whose
// depth is in known.
func depth(v *view.View, r, root view.Row, known map[view.Row]int) (n int) {
	for r != root {
		r = v.Parent(r)
		if r == 0 {
			break
		}
		if d, ok := known[r]; ok {
			return n + d + 1
		}
		if isShown(v, r) {
			n++
		}
	}
	return n
}

// show adds the visible rows at and below a row. The argument above is the number of visible rows above
// the row. For each outermost row that the layout omits, show calls omitted.
func (l *layout) show(ctx context.Context, v *view.View, r view.Row, above int, omitted func(view.Row)) error {
	t, h := v.Tree(), &l.shape
	var ends []int // the ends of the shown rows that contain the row at rank
	for rank, last, n := t.Rank(r), t.End(r), 0; rank < last; n++ {
		if n%(1<<16) == 0 && ctx.Err() != nil {
			return ctx.Err()
		}
		r := t.Row(rank)
		for len(ends) > 0 && ends[len(ends)-1] <= rank {
			ends = ends[:len(ends)-1]
		}
		if !isShown(v, r) {
			rank++
			continue
		}
		level := above + len(ends)
		if l.part != nil && !l.part.Has(r) {
			if level == 0 {
				omitted(r)
			}
			rank = t.End(r)
			continue
		}
		l.ranks.Add(rank)
		if below := t.End(r); below == rank+1 || (level < h.depth) == h.isToggled(r) {
			rank = below
		} else {
			ends = append(ends, below)
			rank++
		}
	}
	return nil
}

// part returns the rows that a form shows if all levels are open. The result all has the rows that the form would
// show without the window. A nil set stands for all rows.
func (s *state) part(ctx context.Context, h form) (part, all view.Set[view.Row], err error) {
	var rows view.Set[view.Row]
	if h.only != "" {
		f, err := s.found(ctx, h.only)
		if err != nil {
			return nil, nil, err
		}
		rows = f.rows
	}
	if h.least > 0 {
		rows = longer(s.v, rows, h.least)
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
func longer(v *view.View, rows view.Set[view.Row], least int64) view.Set[view.Row] {
	out := v.NewSet()
	for r := range v.Rows() {
		if rows != nil && !rows.Has(r) {
			continue
		}
		of := r
		if v.Role(r) != view.RoleSpan {
			of = v.Parent(r)
		}
		if took, ended := v.Duration(of); ended && int64(took) < least && !v.Flags(of).IsError() {
			continue
		}
		out.Add(r)
	}
	return out
}
