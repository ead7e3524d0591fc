package viewer

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"math"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/entrace-go/entrace/format"
	"github.com/entrace-go/entrace/internal/read/columns"
	"github.com/entrace-go/entrace/internal/read/interest"
	"github.com/entrace-go/entrace/internal/text"
	"github.com/entrace-go/entrace/query"
	"github.com/entrace-go/entrace/view"
)

// The page receives the flags of a row as 32 bits: its view.Flags in the lower 16 bits, and these.
const (
	flagExpanded = 1 << (16 + iota)
	flagHit      // the query selects it
	flagParent   // there are rows below it
	flagSpans    // some rows directly below it are spans
	flagError    // it counts as an error
)

const (
	maxRows  = 500 // in one answer
	maxTicks = 50  // of one row
	maxAbove = 100 // rows above the first one; the nearest are kept
)

// rowsHead is the JSON text before the columns of an answer.
type rowsHead struct {
	Total   int      `json:"total"` // visible rows
	First   int      `json:"first"` // index of the first row of this answer among the visible rows
	Above   int      `json:"above"` // number of rows above the first row; they come first in the columns
	Rows    int      `json:"rows"`  // number of rows in the columns, including those of Above
	Ticks   int      `json:"ticks"` // number of ticks in their columns
	From    string   `json:"from"`  // From and To: the window, else the first and the last time of the rows below the root
	To      string   `json:"to"`
	Outside int      `json:"outside"` // outermost rows that are left out because they do not overlap the window
	Toggled []int    `json:"toggled"` // with fill: the rows that are open
	Strings []string `json:"strings"`
}

// rows answers with up to n visible rows. The parameters select the first one: first is its index
// among the visible rows; at is a row that is to be in the answer; last selects the last rows. With
// fill, rows are opened from the top on until so many are visible.
//
// The answer begins with the length of a JSON text in four bytes, and the text. It is filled up to a
// multiple of eight bytes. Then follow columns, little-endian. The columns of the rows are start and
// duration (int64 nanoseconds), row, rows below, errors below, name, service, text (numbers of
// strings) and flags (uint32), and depth (uint16). They are filled up to a multiple of eight bytes.
// The columns of the ticks are time (int64), index of the row (uint32) and level (uint32).
func (h *Handler) rows(ctx context.Context, s *state, q url.Values) (answer, error) {
	form, err := s.shapeOf(q)
	if err != nil {
		return answer{}, err
	}
	n, err := number(q, "n", 60, maxRows+1)
	if err != nil {
		return answer{}, err
	}
	fill, err := number(q, "fill", 0, maxRows+1)
	if err != nil {
		return answer{}, err
	}
	var toggled []int
	if fill > 0 && len(form.toggled) == 0 {
		if toggled, err = s.fill(ctx, &form, fill); err != nil {
			return answer{}, err
		}
	}
	l, err := s.layout(ctx, form)
	if err != nil {
		return answer{}, err
	}
	first, err := number(q, "first", 0, math.MaxInt32)
	if err != nil {
		return answer{}, err
	}
	if q.Has("at") {
		at, err := s.rowOf(q, "at")
		if err != nil {
			return answer{}, err
		}
		first = max(0, l.ranks.before(s.v.Tree().Rank(at))-n/3)
	}
	first = min(first, l.ranks.n-1)
	if q.Has("last") {
		first = l.ranks.n - n
	}
	first = max(0, min(first, l.ranks.n))
	above, rows := s.between(l, first, min(first+n, l.ranks.n))
	p := packer{s: s, l: l, read: s.v.NewReader(), ranker: interest.NewRanker(s.v), numbers: make(map[string]uint32)}
	p.head = rowsHead{Total: l.ranks.n, First: first, Above: above, Toggled: toggled}
	if p.hits, err = s.hits(ctx, q.Get("q"), rows); err != nil {
		return answer{}, err
	}
	depths := s.depths(rows, form.root)
	for i, r := range rows {
		if i%64 == 0 && ctx.Err() != nil {
			return answer{}, ctx.Err()
		}
		if err := p.add(r, depths[i]); err != nil {
			return answer{}, err
		}
	}
	x := s.extent(form.root)
	if form.window.isSet {
		x.from, x.to = form.window.from, form.window.to
	}
	p.head.Outside = l.outside
	p.head.From, p.head.To = strconv.FormatInt(x.from, 10), strconv.FormatInt(x.to, 10)
	b, err := p.pack()
	return answer{bytes: b}, err
}

// between returns the rows of a layout from index first up to end. The ancestors of the first of these
// rows come before them, the outermost first. The result above is the number of ancestors.
func (s *state) between(l *layout, first, end int) (above int, rows []view.Row) {
	if first >= end {
		return 0, nil
	}
	t := s.v.Tree()
	for r := t.Row(l.ranks.at(first)); r != l.shape.root && len(rows) < maxAbove; {
		if r = s.v.Parent(r); r == 0 {
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

// hits returns which of the rows a query selects. If the result of the query is not known yet, it
// searches only these rows if possible, so that the page appears soon.
func (s *state) hits(ctx context.Context, text string, rows []view.Row) (map[view.Row]bool, error) {
	if text == "" {
		return nil, nil //nolint:nilnil // without a query there are none
	}
	hits := make(map[view.Row]bool)
	if _, known := s.finds.get(text); !known {
		q, err := query.Parse(text)
		if err != nil {
			return nil, err
		}
		within := s.v.NewSet()
		for _, r := range rows {
			within.Add(r)
		}
		if all, ok := q.First(ctx, s.v, within); ok {
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

// depths returns for each row the number of shown rows above it, up to and including root. The rows
// must be in the order of the tree, so that the rows above a row come before it.
func (s *state) depths(rows []view.Row, root view.Row) []int {
	if len(rows) == 0 {
		return nil
	}
	t := s.v.Tree()
	var ends []int // the ends of the rows above the current one, the innermost last
	for r := rows[0]; r != root; {
		if r = s.v.Parent(r); r == 0 {
			break
		}
		if isShown(s.v, r) {
			ends = append(ends, t.End(r))
		}
	}
	slices.Reverse(ends)
	depths := make([]int, len(rows))
	for i, r := range rows {
		for len(ends) > 0 && ends[len(ends)-1] <= t.Rank(r) {
			ends = ends[:len(ends)-1]
		}
		depths[i] = len(ends)
		ends = append(ends, t.End(r))
	}
	return depths
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
			// Do not open the recorder's measurements, which are less interesting than the program's rows.
			if closed := i+1 >= l.ranks.n || l.ranks.at(i+1) >= t.End(r); closed && s.v.Role(r) != view.RoleRecorder && s.hasShown(r) && !h.isToggled(r) {
				next = r
				break
			}
		}
		if l.ranks.n >= want || next == 0 {
			return toggled, nil
		}
		at, _ := slices.BinarySearch(h.toggled, next)
		h.toggled = slices.Insert(h.toggled, at, next)
		toggled = append(toggled, int(next))
	}
}

// below returns the number of shown rows below r.
func (s *state) below(r view.Row) int {
	t := s.v.Tree()
	rank, end := t.Rank(r), t.End(r)
	return end - rank - 1 - s.hiddenRanks().between(rank+1, end)
}

// hasShown reports whether a row below r is shown.
func (s *state) hasShown(r view.Row) bool {
	t := s.v.Tree()
	for rank := t.Rank(r) + 1; rank < t.End(r); rank++ {
		if isShown(s.v, t.Row(rank)) {
			return true
		}
	}
	return false
}

// An extent is the time range of some rows.
type extent struct {
	from, to int64 // the first and the last time, 0 if there is none
	timed    bool  // one of them has a time
	spans    bool  // one of them is a span
	newest   int   // the file with the last time
}

// extent returns the extent of the shown rows at and below root.
func (s *state) extent(root view.Row) extent {
	x := extent{from: math.MaxInt64, to: math.MinInt64}
	look := func(r view.Row) {
		if !isShown(s.v, r) {
			return
		}
		x.spans = x.spans || s.v.Role(r) == view.RoleSpan
		if start, timed := s.v.Start(r); timed {
			took, _ := s.v.Duration(r)
			if end := max(start, start+int64(took)); end > x.to {
				x.to = end
				x.newest, _ = s.v.ID(r)
			}
			x.from, x.timed = min(x.from, start), true
		}
	}
	if root == 0 {
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.whole != nil {
			return *s.whole
		}
		for r := range s.v.Rows() {
			look(r)
		}
	} else {
		t := s.v.Tree()
		for rank := t.Rank(root); rank < t.End(root); rank++ {
			look(t.Row(rank))
		}
	}
	if !x.timed {
		x.from, x.to = 0, 0
	}
	if root == 0 {
		s.whole = &x
	}
	return x
}

// A packer makes an answer of rows.
type packer struct {
	s       *state
	l       *layout
	hits    map[view.Row]bool
	read    *view.Reader
	ranker  *interest.Ranker
	head    rowsHead
	numbers map[string]uint32 // of strings

	starts, tooks                                      []int64
	rows, below, errors, names, services, texts, flags []uint32
	depths                                             []uint16
	tickTimes                                          []int64
	tickRows, tickLevels                               []uint32
}

// text returns the number of a string.
func (p *packer) text(s string) uint32 {
	n, ok := p.numbers[s]
	if !ok {
		s = strings.Clone(s) // s is in memory that the reader will reuse
		n = uint32(len(p.head.Strings))
		p.head.Strings = append(p.head.Strings, s)
		p.numbers[s] = n
	}
	return n
}

func (p *packer) add(r view.Row, depth int) error {
	v, t := p.s.v, p.s.v.Tree()
	f := v.Flags(r)
	rank, end := t.Rank(r), t.End(r)
	start, _ := v.Start(r)
	if _, timed := v.Start(r); !timed {
		start = columns.NoTime
	}
	took := int64(-1)
	if d, known := v.Lasted(r); known {
		took = int64(d)
	}
	flags := uint32(f)
	if p.s.hasShown(r) {
		flags |= flagParent
		if p.l.ranks.between(rank+1, end) > 0 {
			flags |= flagExpanded
		}
	}
	if p.hits[r] {
		flags |= flagHit
	}
	if p.s.errorRanks().Has(rank) {
		flags |= flagError
	}
	e, err := p.read.Entry(r)
	if err != nil {
		return err
	}
	name := e.Metadata.Name
	if f.Role() == view.RoleLog || name == "" {
		name = e.Message.Value
	}
	p.starts, p.tooks = append(p.starts, start), append(p.tooks, took)
	p.rows, p.below = append(p.rows, uint32(r)), append(p.below, uint32(p.s.below(r)))
	p.errors = append(p.errors, uint32(p.s.errorRanks().between(rank+1, end)))
	p.names, p.services = append(p.names, p.text(preview(name))), append(p.services, p.text(v.Service(r)))
	text := attributesText(p.ranker.Attributes(r, e))
	if e.Message.Value != "" && name != e.Message.Value {
		text = strings.TrimRight(preview(e.Message.Value)+" "+text, " ")
	}
	p.texts = append(p.texts, p.text(text))
	p.depths, p.flags = append(p.depths, uint16(min(depth, math.MaxUint16))), append(p.flags, flags)
	if p.ticks(r) {
		p.flags[len(p.flags)-1] |= flagSpans
	}
	return nil
}

// ticks adds the times of the log records and events directly below a span. It reports whether it saw
// spans there.
func (p *packer) ticks(r view.Row) (spans bool) {
	v, t := p.s.v, p.s.v.Tree()
	if v.Role(r) != view.RoleSpan {
		return false
	}
	n := 0
	for rank, looked := t.Rank(r)+1, 0; rank < t.End(r) && n < maxTicks && looked < 10*maxTicks; looked++ {
		kid := t.Row(rank)
		switch v.Role(kid) {
		case view.RoleSpan:
			spans = true
		case view.RoleLog, view.RoleEvent:
			if at, timed := v.Start(kid); timed {
				p.tickTimes, p.tickRows = append(p.tickTimes, at), append(p.tickRows, uint32(len(p.rows)-1))
				p.tickLevels = append(p.tickLevels, uint32(v.Flags(kid).Level()))
				n++
			}
		}
		rank = t.End(kid)
	}
	return spans
}

// previewSize is the largest number of bytes of a text in a row.
const previewSize = 300

// preview returns the beginning of a text.
func preview(s string) string {
	return strings.ToValidUTF8(text.Cut(s, previewSize), "")
}

// attributesText returns the first attributes of a list as a line of text.
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

// pack returns the answer in the form that rows describes.
func (p *packer) pack() ([]byte, error) {
	p.head.Rows, p.head.Ticks = len(p.rows), len(p.tickTimes)
	if p.head.Strings == nil {
		p.head.Strings = []string{}
	}
	head, err := json.Marshal(p.head)
	if err != nil {
		return nil, err
	}
	b := binary.LittleEndian.AppendUint32(nil, uint32(len(head)))
	b = append(b, head...)
	pad := func() {
		for len(b)%8 != 0 {
			b = append(b, ' ')
		}
	}
	pad()
	for _, column := range [][]int64{p.starts, p.tooks} {
		for _, n := range column {
			b = binary.LittleEndian.AppendUint64(b, uint64(n))
		}
	}
	for _, column := range [][]uint32{p.rows, p.below, p.errors, p.names, p.services, p.texts, p.flags} {
		for _, n := range column {
			b = binary.LittleEndian.AppendUint32(b, n)
		}
	}
	for _, n := range p.depths {
		b = binary.LittleEndian.AppendUint16(b, n)
	}
	pad()
	for _, n := range p.tickTimes {
		b = binary.LittleEndian.AppendUint64(b, uint64(n))
	}
	for _, column := range [][]uint32{p.tickRows, p.tickLevels} {
		for _, n := range column {
			b = binary.LittleEndian.AppendUint32(b, n)
		}
	}
	return b, nil
}
