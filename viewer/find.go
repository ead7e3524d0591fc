package viewer

import (
	"context"
	"slices"
	"strconv"
	"strings"

	"github.com/entrace-go/entrace/internal/read/columns"
	"github.com/entrace-go/entrace/query"
	"github.com/entrace-go/entrace/view"
)

// The quick search for the first hits covers only the first firstRows rows, and stops after fewHits hits.
const (
	firstRows = 16 * columns.BlockRows
	fewHits   = 200
)

// first answers with a lower bound for the number of hits. It searches only the first rows, because the page also
// requests the complete search.
func (s *state) first(ctx context.Context, text string) (any, error) {
	q, err := query.Parse(text)
	if err != nil {
		return nil, err
	}
	within := s.v.NewSet()
	for r := range view.Row(min(firstRows, s.v.Len())) {
		within.Add(r)
	}
	n := 0
	rows, ok := q.First(ctx, s.v, within)
	if ok {
		for r, err := range rows {
			if err != nil {
				return nil, err
			}
			if isShown(s.v, r) {
				n++
			}
			if n == fewHits {
				break
			}
		}
	}
	return map[string]any{"count": n, "known": ok, "words": append([]string{}, q.Words()...)}, nil
}

// maxWay is the largest number of rows that the page opens to show hits. It leaves 200 of maxToggled for rows that
// the user opens.
const maxWay = maxToggled - 200

// way answers with the rows at and below root that must be open so that all hits of a query are visible. If there are
// more than maxWay such rows, it answers with maxWay rows and sets More.
func (q *request) way(ctx context.Context) (any, error) {
	root := q.row("root")
	f, err := q.selected(ctx, q.Get("q"))
	if err != nil {
		return nil, err
	}
	out := struct {
		Rows []view.Row `json:"rows"` // ascending
		More bool       `json:"more"`
	}{Rows: []view.Row{}}
	t := q.v.Tree()
	seen, ranks := newRankSet(t.Len()), f.ranks()
	last := ranks.before(t.End(root))
	for k := ranks.before(t.Rank(root) + 1); k < last && !out.More; k++ {
		if k%1024 == 0 && ctx.Err() != nil {
			return nil, ctx.Err()
		}
		for r := q.v.Parent(t.Row(ranks.at(k))); r != 0 && !seen.Has(t.Rank(r)); r = q.v.Parent(r) {
			seen.Add(t.Rank(r))
			if isShown(q.v, r) {
				out.Rows = append(out.Rows, r)
			}
			if r == root {
				break
			}
		}
		out.More = len(out.Rows) > maxWay
	}
	slices.Sort(out.Rows)
	out.Rows = out.Rows[:min(len(out.Rows), maxWay)]
	return out, nil
}

// hit answers with the number of rows that a query selects, and with one of these rows. The parameters are:
//   - at names a row.
//   - dir=next requests the selected row after row at, and dir=prev the selected row before row at. Without dir, the
//     answer has row at itself, if it is selected.
//   - what replaces the query: what=error selects errors, and what=open selects spans that have not ended.
//   - first requests a quick answer with the number of the first hits.
func (q *request) hit(ctx context.Context) (any, error) {
	at := q.row("at")
	if q.Has("first") && q.err == nil {
		return q.first(ctx, q.Get("q"))
	}
	w := q.window()
	if q.err != nil {
		return nil, q.err
	}
	f, err := new(found), error(nil)
	switch what := q.Get("what"); what {
	case "error":
		var ranks *rankSet
		ranks, err = q.ranksIn(ctx, q.errors(), w)
		f.ranks = func() *rankSet { return ranks }
		f.outside = func() int { return q.errors().n - ranks.n }
	case "open":
		f, err = q.selected(ctx, "{ span:open }")
	case "":
		f, err = q.selected(ctx, q.Get("q"))
	default:
		err = badRequest("parameter \"what\" must be error or open")
	}
	if err != nil {
		return nil, err
	}
	ranks := f.ranks()
	out := foundRow{Count: ranks.n, Outside: f.outside(), Path: []place{}, Hints: append([]query.Hint{}, f.hints...), Words: append([]string{}, f.words...)}
	t := q.v.Tree()
	rank := t.Rank(at)
	here := ranks.before(rank)
	switch dir := q.Get("dir"); {
	case ranks.n == 0:
	case dir == "next":
		k := here
		if ranks.Has(rank) {
			k++
		}
		out.Index = k%ranks.n + 1
	case dir == "prev":
		out.Index = (here+ranks.n-1)%ranks.n + 1
	case ranks.Has(rank):
		out.Index = here + 1
	}
	if out.Index > 0 {
		out.Row = t.Row(ranks.at(out.Index - 1))
		out.Path = q.path(out.Row)
	}
	return out, nil
}

// A foundRow is one of the rows that a query selects.
type foundRow struct {
	Count int `json:"count"`
	// Outside is the number of selected rows that do not overlap the window. Count does not include these
	// rows.
	Outside int          `json:"outside"`
	Index   int          `json:"index"` // the position of Row among the selected rows, from 1 on; 0 if the answer has no Row
	Row     view.Row     `json:"row"`
	Path    []place      `json:"path"`
	Hints   []query.Hint `json:"hints"`
	Words   []string     `json:"words"`          // the words that the page marks in the rows
	Known   bool         `json:"known,omitzero"` // only with the parameter first: whether the quick search was possible
}

// maxItems is the largest number of completions in an answer.
const maxItems = 30

// complete answers with the possible completions of a query. The parameter at is the offset in the query.
func (q *request) complete(ctx context.Context) (any, error) {
	text := q.Get("q")
	at := q.number("at", len(text), len(text)+1)
	if q.err != nil {
		return nil, q.err
	}
	from, list, err := query.Complete(ctx, q.v, text[:at])
	if err != nil {
		return nil, err
	}
	items := append([]query.Completion{}, list[:min(len(list), maxItems)]...)
	return map[string]any{"from": from, "items": items}, nil
}

// folded answers with the numbers of hits below rows. The parameter "rows" lists the rows, as in 7,9.
func (q *request) folded(ctx context.Context) (any, error) {
	f, err := q.selected(ctx, q.Get("q"))
	if err != nil {
		return nil, err
	}
	counts, t := []int{}, q.v.Tree()
	for row := range strings.SplitSeq(q.Get("rows"), ",") {
		q.Set("row", row)
		r := q.row("row")
		if len(counts) == maxRows {
			q.fail("parameter \"rows\" must list at most " + strconv.Itoa(maxRows) + " rows")
		}
		if q.err != nil {
			return nil, q.err
		}
		counts = append(counts, f.ranks().between(t.Rank(r)+1, t.End(r)))
	}
	return counts, nil
}
