package viewer

import (
	"context"
	"fmt"
	"math"
	"math/bits"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/entrace-go/entrace/internal/core/mapping"
	"github.com/entrace-go/entrace/query"
	"github.com/entrace-go/entrace/view"
)

// A rankSet is a set of ranks of the tree that can count its members in a range, and return the k-th
// one.
type rankSet struct {
	view.Set[int]

	sums []uint32 // how many members are before each word
	n    int
}

func newRankSet(n int) *rankSet { return &rankSet{Set: make(view.Set[int], n/64+1)} }

// done computes the sums. It is called after all members have been added.
func (s *rankSet) done() {
	s.sums = make([]uint32, len(s.Set))
	s.n = 0
	for i, w := range s.Set {
		s.sums[i] = uint32(s.n)
		s.n += bits.OnesCount64(w)
	}
}

// before returns how many members are below i.
func (s *rankSet) before(i int) int {
	if i/64 >= len(s.Set) {
		return s.n
	}
	return int(s.sums[i/64]) + bits.OnesCount64(s.Set[i/64]&(1<<(i%64)-1))
}

// between returns how many members are in [from, to).
func (s *rankSet) between(from, to int) int { return s.before(to) - s.before(from) }

// at returns the k-th member, counted from 0. The member must exist.
func (s *rankSet) at(k int) int {
	w, _ := slices.BinarySearchFunc(s.sums, uint32(k), func(sum, k uint32) int {
		if sum <= k {
			return -1
		}
		return 1
	})
	w--
	word := s.Set[w]
	for range k - int(s.sums[w]) {
		word &= word - 1
	}
	return w*64 + bits.TrailingZeros64(word)
}

// isShown reports whether a row has a line in the tree. Hits, errors and the time axis count only these
// rows. A row without a line, such as a resource, is left out, and the rows below it are shown at its
// place. A link is shown with its span. The recorder's last entry has no line, because it only says
// that the file is whole.
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
	root    view.Row   // only this row and the rows below it are shown; 0: all rows
	depth   int        // number of levels that are open
	toggled []view.Row // sorted: rows that are closed in an open level, or open in a closed level
	only    string     // a query: only the rows that it selects, and the rows above them, are shown
	window  window     // only the rows that overlap it, and the rows above them, are shown
	least   int64      // spans that took fewer nanoseconds are left out, with their log records and events
}

// maxToggled is the largest number of rows that a request can open and close.
const maxToggled = 4000

// shapeOf reads the shape of a request from its parameters. The parameter x lists the toggled rows, each as
// the difference from the row before it, in base 36.
func (s *state) shapeOf(q url.Values) (h shape, err error) {
	if h.root, err = s.rowOf(q, "root"); err != nil {
		return h, err
	}
	if h.depth, err = number(q, "depth", 0, math.MaxInt32); err != nil {
		return h, err
	}
	at := uint64(0)
	if x := q.Get("x"); x != "" {
		for d := range strings.SplitSeq(x, ".") {
			n, err := strconv.ParseUint(d, 36, 32)
			if at += n; err != nil || at >= uint64(s.v.Len()) || len(h.toggled) == maxToggled {
				return h, badRequest("x is not a list of rows")
			}
			h.toggled = append(h.toggled, view.Row(at))
		}
	}
	h.only = q.Get("only")
	if h.window, err = s.windowOf(q); err != nil {
		return h, err
	}
	if text := q.Get("least"); text != "" {
		if h.least, err = strconv.ParseInt(text, 10, 64); err != nil || h.least < 0 {
			return h, badRequest("least is not a number of nanoseconds")
		}
	}
	return h, nil
}

func (h *shape) isToggled(r view.Row) bool {
	_, is := slices.BinarySearch(h.toggled, r)
	return is
}

// A layout holds the visible rows of a shape, in order.
type layout struct {
	shape   shape
	ranks   *rankSet
	outside int // outermost rows that are left out because they do not overlap the window
}

// A latest is a cache of the last few results of a computation, by their keys. It is safe for
// concurrent use.
type latest[T any] struct {
	mu   sync.Mutex
	keys []string
	list []T
}

const fewLatest = 4

// drop removes all results.
func (l *latest[T]) drop() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.keys, l.list = nil, nil
}

func (l *latest[T]) get(key string) (v T, ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if i := slices.Index(l.keys, key); i >= 0 {
		return l.list[i], true
	}
	return v, false
}

func (l *latest[T]) put(key string, v T) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.keys, l.list = append(l.keys, key), append(l.list, v); len(l.keys) > fewLatest {
		l.keys, l.list = l.keys[1:], l.list[1:]
	}
}

// layout returns the layout of a shape.
func (s *state) layout(ctx context.Context, h shape) (*layout, error) {
	key := fmt.Sprint(h)
	if l, ok := s.layouts.get(key); ok {
		return l, nil
	}
	part, outside, err := s.part(ctx, h)
	if err != nil {
		return nil, err
	}
	t := s.v.Tree()
	l := &layout{shape: h, ranks: newRankSet(t.Len())}
	var ends []int // the ends of the shown rows above the row at rank
	first, end := t.Rank(h.root), t.End(h.root)
	if h.root == 0 {
		first, end = 1, t.Len()
	}
	for rank, n := first, 0; rank < end; n++ {
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
	s.layouts.put(key, l)
	return l, nil
}

// part returns the rows that a shape shows if all levels are open. The set all has the rows that the shape
// would show without the window. A nil set stands for all rows.
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

// longer returns the rows of a set without the spans that took less than least nanoseconds, and without the
// log records and events of these spans. Spans that failed stay. If rows is nil, the set has all rows.
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

// ranksOf returns the ranks of the rows for which the function is returns true. It computes them once and
// keeps them in *kept.
func (s *state) ranksOf(kept **rankSet, is func(r view.Row, f view.Flags) bool) *rankSet {
	s.mu.Lock()
	defer s.mu.Unlock()
	if *kept == nil {
		t := s.v.Tree()
		set := newRankSet(t.Len())
		for r := range s.v.Rows() {
			if is(r, s.v.Flags(r)) {
				set.Add(t.Rank(r))
			}
		}
		set.done()
		*kept = set
	}
	return *kept
}

// hiddenRanks returns the ranks of the rows without a line in the tree.
func (s *state) hiddenRanks() *rankSet {
	return s.ranksOf(&s.hidden, func(r view.Row, f view.Flags) bool { return f.Role() != view.RoleFolded && !isShown(s.v, r) })
}

// logRanks returns the ranks of log records and events.
func (s *state) logRanks() *rankSet {
	return s.ranksOf(&s.logs, func(_ view.Row, f view.Flags) bool { return f.Role() == view.RoleLog || f.Role() == view.RoleEvent })
}

// errorRanks returns the ranks of the rows that are errors, as analyze.Top counts them. The recorder's own
// entries are not errors: its entry of a crash only says which kind of file this is.
func (s *state) errorRanks() *rankSet {
	return s.ranksOf(&s.errors, func(r view.Row, f view.Flags) bool {
		return isShown(s.v, r) && f.IsError() && f.Role() != view.RoleRecorder
	})
}

// A found holds the rows that a query selects.
type found struct {
	rows    view.Set[view.Row]
	ranks   *rankSet
	outside int // the number of selected rows outside the window
	hints   []query.Hint
	words   []string // the words of the query that are free text
}

// A tableError says that a query computes a table where the page needs rows.
type tableError struct{ query string }

func (e *tableError) Error() string {
	return "the query computes a table, and the page shows rows: print it with 'entrace stats'"
}

// found runs a query, or returns the result of an earlier run.
func (s *state) found(ctx context.Context, text string) (*found, error) {
	if f, ok := s.finds.get(text); ok {
		return f, nil
	}
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
	s.finds.put(text, f)
	return f, nil
}
