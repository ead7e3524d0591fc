package analyze

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/entrace-go/entrace/internal/core/mapping"
	"github.com/entrace-go/entrace/internal/read/columns"
	"github.com/entrace-go/entrace/internal/read/stat"
	"github.com/entrace-go/entrace/query"
	"github.com/entrace-go/entrace/view"
)

// Requests holds the spans of a set of rows that have no span above them, except for a span of entrace run. The
// methods are safe for concurrent use.
type Requests struct {
	view   *view.View
	list   []timed
	names  []operation
	of     func() [][]*timed // the requests of each name; computed by the first call
	where  string            // a condition that selects the requests
	beside func() *besides
}

// A timed is a request that has a start time.
type timed struct {
	row         view.Row
	name        int32 // an index of names
	failed      bool
	start, took int64 // took is neverEnded if the request has not ended
}

const (
	neverEnded = -1
	mostGroups = 5
	maxSample  = 20_000 // the maximum number of requests of each side that are compared
	maxWalked  = 1000   // the maximum number of requests of each side whose spans are examined
)

// RequestsOf returns the requests in a set of rows.
func RequestsOf(ctx context.Context, v *view.View, rows view.Set[view.Row]) (*Requests, error) {
	q := &Requests{view: v, where: "parent = nil", beside: sync.OnceValue(func() *besides { return besidesOf(v) })}
	q.of = sync.OnceValue(q.byName)
	left := withoutRuns(v, rows)
	if slices.Contains(v.Services(), mapping.RunService) {
		q.where = "(" + q.where + " || " + query.Where("parent:service", mapping.RunService) + ")"
	}
	requests := v.NewSet()
	cols := columns.Of(v)
	err := cols.Each(ctx, func() func(k int) {
		within := Above(v, left)
		return func(k int) {
			b := cols.Block(k)
			for i := range left[k*columns.Words : (k+1)*columns.Words].All() {
				if r := view.Row(b.First) + i; view.Flags(b.Flags[i]).Role() == view.RoleSpan && b.Start[i] != columns.NoTime && !within(r) {
					requests.Add(r)
				}
			}
		}
	})
	if err != nil {
		return nil, err
	}
	q.list = make([]timed, 0, requests.Len())
	names := operations{known: make(map[operation]int32)}
	number := names.reader(v)
	for k := range cols.Blocks() {
		b := cols.Block(k)
		for i := range requests[k*columns.Words : (k+1)*columns.Words].All() {
			took := int64(neverEnded)
			if d := b.Duration[i]; d != columns.NoDuration {
				took = max(0, min(d, math.MaxInt64/2))
			}
			r := view.Row(b.First) + i
			q.list = append(q.list, timed{r, number(r, b.Resource[i], b.Meta[i]), view.Flags(b.Flags[i]).IsError(), b.Start[i], took})
		}
	}
	q.names = names.list
	return q, nil
}

// byName returns the requests of each name.
func (q *Requests) byName() [][]*timed {
	of := make([][]*timed, len(q.names))
	for i := range q.list {
		x := &q.list[i]
		of[x.name] = append(of[x.name], x)
	}
	return of
}

// Counts says how many spans and requests a trace has.
type Counts struct {
	Spans    int           `json:"spans"`
	Open     int           `json:"open_spans"` // spans that have not ended
	Requests int           `json:"requests"`
	Failed   int           `json:"failed_requests"`
	P95      time.Duration `json:"p95_nano"` // the 95th percentile of the durations of the ended requests; 0 if no request has ended
}

// CountsOf returns the counts of all rows of a view.
func CountsOf(ctx context.Context, v *view.View) (*Counts, error) {
	all, c := v.NewSet(), new(Counts)
	for r := range v.Rows() {
		all.Add(r)
		if f := v.Flags(r); f.Role() == view.RoleSpan {
			c.Spans++
			if f.Open() {
				c.Open++
			}
		}
	}
	q, err := RequestsOf(ctx, v, all)
	if err != nil {
		return nil, err
	}
	h := q.Heat(2, 1)
	c.Requests, c.Failed, c.P95 = h.Requests, h.Failed, time.Duration(h.P95)
	return c, nil
}

// A Heat counts requests by their start and duration. Its columns are periods of equal width; its rows are ranges
// of durations, equal on a logarithmic scale.
type Heat struct {
	From     Time     `json:"from_unix_nano"` // the start of the first column
	Width    int64    `json:"column_nano"`
	Columns  int      `json:"columns"`
	Edges    []int64  `json:"edges"` // the least durations of the rows in nanoseconds, followed by the end of the last row
	Requests int      `json:"requests"`
	Failed   int      `json:"failed"`
	Open     int      `json:"open"` // the number of requests that have not ended
	P50      int64    `json:"p50_nano"`
	P95      int64    `json:"p95_nano"`
	P99      int64    `json:"p99_nano"`
	Longest  view.Row `json:"longest" null:"yes"`
	// Cells has three numbers for each non-empty cell: its distance from the previous non-empty cell, its number of
	// requests, and its number of failed requests. Cells are numbered column by column, and within a column by
	// duration. The last cell of a column counts the requests that have not ended.
	Cells []int `json:"cells"`
}

// Heat counts the requests in the given numbers of columns, at least two, and rows.
func (q *Requests) Heat(columns, rows int) *Heat {
	columns = max(2, columns) // a single column could be too wide for an int64
	h := &Heat{From: NoTime, Width: 1, Columns: columns, Edges: []int64{}, Requests: len(q.list), Cells: []int{}}
	first, last, most := int64(math.MaxInt64), int64(math.MinInt64), int64(neverEnded)
	took := make([]int64, 0, len(q.list))
	for _, x := range q.list {
		first, last = min(first, x.start), max(last, x.start)
		if x.failed {
			h.Failed++
		}
		if x.took == neverEnded {
			h.Open++
		} else {
			took = append(took, x.took)
			if x.took > most {
				most, h.Longest = x.took, x.row
			}
		}
	}
	if len(q.list) == 0 {
		return h
	}
	h.From, h.Width = Time(first), int64(uint64(last-first)/uint64(columns))+1
	least := int64(0)
	var work sync.WaitGroup
	defer work.Wait()
	if len(took) > 0 {
		least = slices.Min(took)
		work.Go(func() {
			from := 0 // later values are not smaller
			for i, q := range [...]float64{.5, .95, .99} {
				k := int(stat.Rank(q, int64(len(took))))
				*[...]*int64{&h.P50, &h.P95, &h.P99}[i] = stat.Nth(took[from:], k-from)
				from = k
			}
		})
	}
	step := math.Log(float64(most+2)/float64(least+1)) / float64(rows)
	h.Edges = append(h.Edges, least)
	for i := 1; i < rows; i++ {
		h.Edges = append(h.Edges, max(h.Edges[i-1]+1, int64(float64(least+1)*math.Exp(step*float64(i)))))
	}
	h.Edges = append(h.Edges, max(h.Edges[rows-1], most)+1)
	counts := make([][2]int, columns*(rows+1))
	for _, x := range q.list {
		row := rows
		if x.took != neverEnded {
			row, _ = slices.BinarySearch(h.Edges, x.took+1)
			row--
		}
		c := &counts[int(uint64(x.start-first)/uint64(h.Width))*(rows+1)+row]
		c[0]++
		if x.failed {
			c[1]++
		}
	}
	before := 0
	for i, c := range counts {
		if c[0] > 0 {
			h.Cells, before = append(h.Cells, i-before, c[0], c[1]), i
		}
	}
	return h
}

// A Box selects requests by their start and duration. The start is at least From and less than To. The duration is
// at least Least and less than Most, or unlimited if Most is 0. If Least and Most are 0, requests that have not
// ended are also selected.
type Box struct {
	From, To, Least, Most int64
	Failed                bool // only failed requests
}

func (b *Box) has(x *timed) bool {
	return x.start >= b.From && x.start < b.To && (x.failed || !b.Failed) && (x.took >= b.Least && (x.took < b.Most || b.Most == 0) || b.Least == 0 && b.Most == 0)
}

// A Choice describes how some requests differ from other requests of the same names.
type Choice struct {
	Requests int    `json:"requests"`
	Failed   int    `json:"failed"`
	Query    string `json:"query"` // a query that selects the requests
	// Groups has a group for each service and name, sorted by total time. If there are several groups, a group of all
	// requests comes first.
	Groups []ChoiceGroup `json:"groups"`
	More   int           `json:"more"` // the number of groups that are not in Groups
}

// A ChoiceGroup compares the chosen requests of a service and name with the other requests of the same name.
type ChoiceGroup struct {
	Service  string     `json:"service"`
	Name     string     `json:"name"`
	Text     string     `json:"text"` // the number of requests and their durations
	Longest  view.Row   `json:"longest"`
	Evidence []Evidence `json:"evidence"` // what distinguishes the requests from the others
}

// Choose compares the requests in a box with the other requests of the same names.
func (q *Requests) Choose(ctx context.Context, b Box) (*Choice, error) {
	c := &Choice{Query: q.query(b)}
	byName := make([]compared, len(q.names))
	for i := range q.list {
		if x := &q.list[i]; b.has(x) {
			c.Requests++
			if x.failed {
				c.Failed++
			}
			byName[x.name].in = append(byName[x.name].in, x)
		}
	}
	all, several, of := compared{}, 0, q.of()
	for i := range byName {
		p := &byName[i]
		if len(p.in) == 0 {
			continue
		}
		p.of = len(of[i])
		for x := range evenly(of[i], maxSample) {
			if !b.has(x) {
				p.others = append(p.others, x)
			}
		}
		if len(p.others) > 0 {
			all.in, all.others, all.of, several = append(all.in, p.in...), append(all.others, p.others...), all.of+p.of, several+1
		}
	}
	byName = slices.DeleteFunc(byName, func(p compared) bool { return len(p.in) == 0 })
	slices.SortStableFunc(byName, func(a, b compared) int { return cmp.Compare(b.time(), a.time()) })
	if several > 1 {
		byName = slices.Insert(byName, 0, all)
	}
	c.More = max(0, len(byName)-mostGroups)
	byName = byName[:len(byName)-c.More]
	c.Groups = make([]ChoiceGroup, len(byName))
	errs := make([]error, len(byName))
	var work sync.WaitGroup
	for i, p := range byName {
		work.Go(func() {
			errs[i] = q.group(ctx, &c.Groups[i], p, i == 0, len(byName))
			op := q.names[p.in[0].name]
			if i > 0 || several < 2 {
				c.Groups[i].Service, c.Groups[i].Name = op.service, op.name
			}
		})
	}
	work.Wait()
	for i := 1; i < len(byName) && several > 1; i++ { // leave out evidence that the group of all requests has
		g := &c.Groups[i]
		g.Evidence = slices.DeleteFunc(g.Evidence, func(e Evidence) bool {
			return slices.ContainsFunc(c.Groups[0].Evidence, func(all Evidence) bool {
				return all.Kind == e.Kind && all.Operation == e.Operation && all.Pattern == e.Pattern
			})
		})
	}
	return c, cmp.Or(errors.Join(errs...), ctx.Err())
}

// A compared holds the chosen requests, a sample of the other requests of the same names, and the number of all
// requests of these names.
type compared struct {
	in, others []*timed
	of         int
}

func (p *compared) time() (sum float64) {
	for _, x := range p.in {
		sum += float64(x.took)
	}
	return sum
}

// group compares some requests with others. The parameter groups is the number of all groups. For the first group,
// it also compares which spans ran at the same time.
func (q *Requests) group(ctx context.Context, g *ChoiceGroup, p compared, first bool, groups int) error {
	longest := slices.MaxFunc(p.in, func(a, b *timed) int { return cmp.Compare(a.took, b.took) })
	*g = ChoiceGroup{Longest: longest.row, Evidence: []Evidence{}, Text: fmt.Sprintf("%d of %d", len(p.in), p.of)}
	if longest.took != neverEnded {
		g.Text += fmt.Sprintf(", %s at the median", took(median(p.in)))
		if len(p.others) > 0 {
			g.Text += fmt.Sprintf(", the others %s", took(median(p.others)))
		}
	}
	list, spans, err := q.inside([2][]*timed{p.in, p.others})
	rows := [2][]view.Row{}
	for i, side := range [2][]*timed{p.in, p.others} {
		for x := range evenly(side, maxSample) {
			rows[i] = append(rows[i], x.row)
		}
	}
	for i, of := range [][2][]view.Row{rows, spans} {
		if err != nil || len(of[0]) < few || len(of[1]) < few {
			continue
		}
		var ran []Beside
		in, others := SetOf(q.view, of[0]), SetOf(q.view, of[1])
		if first && i == 0 {
			ran = q.beside().ran(longest.row, in, others)
		}
		list, err = tell(ctx, list, q.view, in, others, ran, groups, leastGap, false)
	}
	g.Evidence = append(g.Evidence, list...)
	return err
}

func median(list []*timed) int64 {
	var all []int64
	for _, x := range list {
		if x.took != neverEnded {
			all = append(all, x.took)
		}
	}
	if len(all) == 0 {
		return 0
	}
	return stat.Quantile(all, .5)
}

// evenly yields at most n evenly distributed items of a list.
func evenly(list []*timed, n int) iter.Seq[*timed] {
	return func(yield func(*timed) bool) {
		for i := range min(n, len(list)) {
			if !yield(list[i*len(list)/min(n, len(list))]) {
				return
			}
		}
	}
}

// A spent is the time of the spans of an operation, in the chosen requests and in the others.
type spent struct {
	time [2]float64 // the self time per request, on each side
	rows [2][]view.Row
}

func (s *spent) more() float64 { return s.time[0] - s.time[1] }

// inside compares the operations in which the chosen and the other requests spend their time, and returns the errors
// of the chosen requests. The rows in spans are the spans of the operation that the evidence names.
func (q *Requests) inside(sides [2][]*timed) (list []Evidence, spans [2][]view.Row, err error) {
	t, texts := q.view.Tree(), newErrorTexts(q.view)
	all, most, slow, said := spent{}, &spent{}, operation{}, make(map[string]int)
	own := make(map[operation]*spent)
	for side, requests := range sides {
		n := min(len(requests), maxWalked)
		for x := range evenly(requests, n) {
			failed := view.Row(0)
			for rank, end := t.Rank(x.row), t.End(x.row); rank < min(end, t.Rank(x.row)+maxWalked); rank++ {
				r := t.Row(rank)
				// The rows are in the order of the tree, so the error of a callee follows the error of its caller.
				if q.view.Flags(r).IsError() {
					failed = r
				}
				if self, ended := q.view.SelfTime(r); ended {
					op := at(own, operationOf(q.view, r))
					op.time[side], op.rows[side] = op.time[side]+float64(self)/float64(n), append(op.rows[side], r)
					all.time[side] += float64(self) / float64(n)
				}
			}
			if failed != 0 && x.failed && side == 0 {
				text, err := texts.of(failed)
				if err != nil {
					return nil, spans, err
				}
				said[Pattern(text)]++
			}
		}
	}
	for op, x := range own {
		if cmp.Or(cmp.Compare(x.more(), most.more()), op.compare(slow)) > 0 {
			slow, most = op, x
		}
	}
	if more := all.more(); more > all.time[0]*leastGap && most.more() > more*gapByRun {
		e := Evidence{Kind: KindSlower, Operation: slow.name, Share: most.more() / more, Sure: true}
		e.Text = fmt.Sprintf("%s of %s takes %s of its own in each", slow.name, name(slow.service), took(int64(most.time[0])))
		if len(sides[1]) > 0 {
			e.Text += fmt.Sprintf(", %s in each of the others", took(int64(most.time[1])))
		}
		list, spans = append(list, e), most.rows
	}
	for _, pattern := range slices.SortedFunc(maps.Keys(said), func(a, b string) int { return cmp.Or(said[b]-said[a], cmp.Compare(a, b)) }) {
		if n, of := said[pattern], min(len(sides[0]), maxWalked); n*10 >= of && len(list) < few {
			list = append(list, Evidence{Kind: KindError, Pattern: pattern, Sure: true, Now: Count{N: n, Of: of}, Text: fmt.Sprintf("%d of %d failed: %s", n, of, pattern)})
		}
	}
	return list, spans, nil
}

// query returns a query that selects the requests in a box.
func (q *Requests) query(b Box) string {
	where := []string{"entry:role = span", q.where}
	instant := func(n int64) string { return strconv.Quote(time.Unix(0, n).UTC().Format(time.RFC3339Nano)) }
	for _, x := range []struct {
		is   bool
		text string
	}{
		{b.From > 0, "start >= " + instant(b.From)},
		{b.To < math.MaxInt64, "start < " + instant(b.To)},
		{b.Least > 0, fmt.Sprintf("duration >= %dns", b.Least)},
		{b.Most > 0, fmt.Sprintf("duration < %dns", b.Most)},
		{b.Failed, "(span:failed || level >= error)"},
	} {
		if x.is {
			where = append(where, x.text)
		}
	}
	return "{ " + strings.Join(where, " && ") + " }"
}
