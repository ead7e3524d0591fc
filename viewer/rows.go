package viewer

import (
	"cmp"
	"context"
	"math"
	"slices"
	"strings"

	"github.com/entrace-go/entrace/format"
	"github.com/entrace-go/entrace/internal/analyze"
	"github.com/entrace-go/entrace/internal/read/interest"
	"github.com/entrace-go/entrace/internal/text"
	"github.com/entrace-go/entrace/query"
	"github.com/entrace-go/entrace/view"
)

// The page receives the flags of a row as 32 bits: the lower 16 bits are its view.Flags, and the upper bits are
// the following flags.
const (
	flagExpanded = 1 << (16 + iota)
	flagHit      // the query selects the row
	flagParent   // the row has rows below it
	flagSpans    // the row has spans directly below it
	flagError    // the row counts as an error
)

const (
	maxRows  = 500  // in one answer
	maxTicks = 50   // of one row
	maxAbove = 100  // ancestors of the first row; the nearest ancestors are kept
	maxParts = 24   // inner spans of a closed span; the longest spans are kept
	maxInner = 2000 // rows below a closed span that are searched for inner spans
)

// A treeRows holds a part of the visible rows.
type treeRows struct {
	Total   int       `json:"total"`     // the number of visible rows
	First   int       `json:"first"`     // the position of Rows[0] among the visible rows
	From    int64     `json:"from_nano"` // From and To: the window, or the first and the last time of the rows below the root
	To      int64     `json:"to_nano"`
	Outside int       `json:"outside"`            // the number of outermost rows that are omitted because they do not overlap the window
	Toggled []int     `json:"toggled" null:"yes"` // the rows that the parameter fill opened
	Above   []treeRow `json:"above"`              // the ancestors of Rows[0], the outermost first
	Rows    []treeRow `json:"rows"`
}

// A treeRow is a visible row.
type treeRow struct {
	Row     view.Row     `json:"row"`
	Start   analyze.Time `json:"start_unix_nano"`
	Took    *int64       `json:"took_nano"` // for an open span, how long it has been open at least
	Below   int          `json:"below"`     // the number of rows below; Errors counts the errors among them
	Errors  int          `json:"errors"`
	Name    string       `json:"name"`
	Service string       `json:"service"`
	Text    string       `json:"text"` // some attributes
	Depth   int          `json:"depth"`
	Flags   uint32       `json:"flags"`
	Ticks   []tick       `json:"ticks"` // for a span: the log records and events directly below it
	Parts   []innerSpan  `json:"parts"` // for a closed span: the longest leaf spans among the first maxInner rows below it
}

// An innerSpan is the position of a span within the time of a span above it. Times are from 0 to 1.
type innerSpan struct {
	From    float32 `json:"from"`
	To      float32 `json:"to"`
	Name    string  `json:"name"`
	Service string  `json:"service"`
}

type tick struct {
	Time  int64        `json:"time_nano"`
	Level format.Level `json:"level"`
}

// rows answers with up to n visible rows. One of three parameters selects them: first is the position of the first
// row among the visible rows, at is a row that the answer must contain, and last requests the last rows. With fill,
// rows opens rows from the top on until fill rows are visible.
func (q *request) rows(ctx context.Context) (any, error) {
	shape, n, fill := q.shape(), q.number("n", 60, maxRows+1), q.number("fill", 0, maxRows+1)
	first, at := q.number("first", 0, math.MaxInt32), q.row("at")
	if q.err != nil {
		return nil, q.err
	}
	var toggled []int
	var err error
	if fill > 0 && len(shape.toggled) == 0 {
		toggled, err = q.fill(ctx, &shape, fill)
		if err != nil {
			return nil, err
		}
	}
	l, err := q.layout(ctx, shape)
	if err != nil {
		return nil, err
	}
	if q.Has("at") {
		first = max(0, l.ranks.before(q.v.Tree().Rank(at))-n/3)
	}
	first = min(first, l.ranks.n-1)
	if q.Has("last") {
		first = l.ranks.n - n
	}
	first = max(0, first)
	above, rows := q.between(l, first, min(first+n, l.ranks.n))
	hits, err := q.hits(ctx, q.Get("q"), rows)
	if err != nil {
		return nil, err
	}
	x := q.extent(shape.root, shape.window)
	out := &treeRows{Total: l.ranks.n, First: first, From: x.from, To: x.to, Outside: l.outside, Toggled: toggled}
	read, ranker, depths := q.v.NewReader(), interest.NewRanker(q.v), make(map[view.Row]int)
	list := make([]treeRow, len(rows))
	for i, r := range rows {
		if i%64 == 0 && ctx.Err() != nil {
			return nil, ctx.Err()
		}
		e, err := read.Entry(r)
		if err != nil {
			return nil, err
		}
		depths[r] = depth(q.v, r, shape.root, depths)
		if up := q.v.Parent(r); r != shape.root && isShown(q.v, up) {
			depths[up] = depths[r] - 1
		}
		list[i] = q.treeRow(r, e, ranker)
		list[i].Depth = depths[r]
		if hits[r] {
			list[i].Flags |= flagHit
		}
		if rank := q.v.Tree().Rank(r); list[i].Below > 0 && l.ranks.between(rank+1, q.v.Tree().End(r)) > 0 {
			list[i].Flags |= flagExpanded
		} else {
			list[i].Parts = q.parts(&list[i], r)
		}
	}
	out.Above, out.Rows = list[:above], list[above:]
	return out, nil
}

// between returns the ancestors of the first row, the outermost first, and then the rows of a layout with
// positions in [first, end). The result above is the number of ancestors.
func (s *state) between(l *layout, first, end int) (above int, rows []view.Row) {
	if first >= end {
		return 0, nil
	}
	t := s.v.Tree()
	for r := t.Row(l.ranks.at(first)); r != l.shape.root && len(rows) < maxAbove; {
		r = s.v.Parent(r)
		if r == 0 {
			break
		}
		if isShown(s.v, r) {
			rows = append(rows, r)
		}
	}
	slices.Reverse(rows)
	above = len(rows)
	for i := first; i < end; i++ {
		rows = append(rows, t.Row(l.ranks.at(i)))
	}
	return above, rows
}

// hits returns which of the given rows a query selects. If the result of the whole query is not cached, hits
// searches only the given rows if possible, so that the page appears soon.
func (s *state) hits(ctx context.Context, text string, rows []view.Row) (map[view.Row]bool, error) {
	if text == "" {
		return nil, nil //nolint:nilnil // without a query there are no hits
	}
	hits := make(map[view.Row]bool)
	if s.known(finds, text) == nil {
		q, err := query.Parse(text)
		if err != nil {
			return nil, err
		}
		if all, ok := q.First(ctx, s.v, analyze.SetOf(s.v, rows)); ok {
			for r, err := range all {
				if err != nil {
					return nil, err
				}
				hits[r] = true
			}
			return hits, nil
		}
	}
	f, err := s.found(ctx, text)
	if err != nil {
		return nil, err
	}
	for _, r := range rows {
		hits[r] = f.rows.Has(r)
	}
	return hits, nil
}

// fill opens rows from the top on until want rows are visible, and returns the rows that it opened.
func (s *state) fill(ctx context.Context, h *shape, want int) ([]int, error) {
	toggled := []int{}
	for {
		l, err := s.layout(ctx, *h)
		if err != nil {
			return nil, err
		}
		t := s.v.Tree()
		next := view.Row(0)
		for i := range min(l.ranks.n, want) {
			rank := l.ranks.at(i)
			r := t.Row(rank)
			// Do not open the recorder's own measurements: they are less interesting than the program's rows.
			if closed := i+1 >= l.ranks.n || l.ranks.at(i+1) >= t.End(r); closed && s.v.Role(r) != view.RoleRecorder && s.below(r) > 0 && !h.isToggled(r) {
				next = r
				break
			}
		}
		if l.ranks.n >= want || next == 0 {
			return toggled, nil
		}
		at, _ := slices.BinarySearch(h.toggled, next)
		h.toggled = slices.Insert(slices.Clone(h.toggled), at, next) // a copy, because the cached layout has the old list
		toggled = append(toggled, int(next))
	}
}

// below returns the number of shown rows below row r.
func (s *state) below(r view.Row) int {
	t := s.v.Tree()
	rank, end := t.Rank(r), t.End(r)
	return end - rank - 1 - s.hidden().between(rank+1, end)
}

// treeRow returns row r for the tree, without the fields that depend on other rows of the answer.
func (s *state) treeRow(r view.Row, e *format.TraceEntry, ranker *interest.Ranker) treeRow {
	v, t := s.v, s.v.Tree()
	f := v.Flags(r)
	x := treeRow{
		Row: r, Start: s.startOf(r), Took: s.tookOf(r), Below: s.below(r), Errors: s.errors().between(t.Rank(r)+1, t.End(r)), Name: e.Metadata.Name, Service: v.Service(r),
		Text: attributesText(ranker.Attributes(r, e)), Flags: uint32(f), Ticks: []tick{}, Parts: []innerSpan{},
	}
	if f.Role() == view.RoleLog || x.Name == "" {
		x.Name = e.Message.Value
	} else if e.Message.Value != "" && x.Name != e.Message.Value {
		x.Text = strings.TrimRight(preview(e.Message.Value)+" "+x.Text, " ")
	}
	x.Name = strings.Clone(preview(x.Name)) // a copy, because the reader reuses the memory of the name
	if x.Below > 0 {
		x.Flags |= flagParent
	}
	if s.errors().Has(t.Rank(r)) {
		x.Flags |= flagError
	}
	if f.Role() != view.RoleSpan {
		return x
	}
	for rank, looked := t.Rank(r)+1, 0; rank < t.End(r) && len(x.Ticks) < maxTicks && looked < 10*maxTicks; looked++ {
		kid := t.Row(rank)
		role := v.Role(kid)
		switch {
		case s.hidden().Has(rank):
		case role == view.RoleSpan:
			x.Flags |= flagSpans
		case role == view.RoleLog || role == view.RoleEvent:
			if at, timed := v.Start(kid); timed {
				x.Ticks = append(x.Ticks, tick{at, v.Flags(kid).Level()})
			}
		}
		rank = t.End(kid)
	}
	return x
}

// parts returns the inner spans that the bar of row r shows if the row is closed. x is the row in the tree.
func (s *state) parts(x *treeRow, r view.Row) []innerSpan {
	if x.Flags&flagSpans == 0 || x.Took == nil {
		return []innerSpan{}
	}
	v, t := s.v, s.v.Tree()
	start, _ := v.Start(r)
	at := func(time int64) float32 { return min(1, max(0, float32(time-start)/float32(max(1, *x.Took)))) }
	type timed struct {
		innerSpan

		row view.Row
	}
	var list []timed
	add := func(r view.Row) {
		from, hasTime := v.Start(r)
		if d, known := v.Lasted(r); hasTime && known {
			list = append(list, timed{innerSpan{From: at(from), To: at(from + int64(d))}, r})
		}
	}
	last := view.Row(0)
	for rank := t.Rank(r) + 1; rank < min(t.End(r), t.Rank(r)+maxInner); rank++ {
		if v.Role(t.Row(rank)) != view.RoleSpan || s.hidden().Has(rank) {
			continue
		}
		if last != 0 && rank >= t.End(last) {
			add(last)
		}
		last = t.Row(rank)
	}
	if last != 0 {
		add(last)
	}
	slices.SortStableFunc(list, func(a, b timed) int { return cmp.Compare(b.To-b.From, a.To-a.From) })
	out := []innerSpan{}
	for _, x := range list[:min(len(list), maxParts)] {
		x.Name, x.Service = preview(v.Name(x.row)), v.Service(x.row)
		out = append(out, x.innerSpan)
	}
	return out
}

// attributesText returns the first attributes of a list as one line of text.
func attributesText(list []format.Attribute) string {
	var b strings.Builder
	for _, a := range list {
		if b.Len() > previewSize/2 {
			break
		}
		if b.Len() > 0 {
			b.WriteByte(' ')
		}
		b.WriteString(a.Name + "=" + text.Cut(a.Value.String(), 80))
	}
	return preview(b.String())
}
