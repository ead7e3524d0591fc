package viewer

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/entrace-go/entrace/internal/analyze"
	"github.com/entrace-go/entrace/internal/read/stat"
	"github.com/entrace-go/entrace/query"
	"github.com/entrace-go/entrace/view"
)

// A why compares a span with all spans of the same name and service, and says which properties the slow or the
// failed spans share.
type why struct {
	Name    string           `json:"name"`
	Service string           `json:"service"`
	Where   string           `json:"where"`   // a query that selects the spans of this name and service
	Without string           `json:"without"` // a query for requests without such a span; empty if the span is itself a request
	Outside bool             `json:"outside"` // the span is outside the window, so all spans of the name are compared
	Count   int              `json:"count"`   // the number of compared spans that have ended
	Faster  int              `json:"faster"`
	Median  int64            `json:"median_nano"`
	Took    *int64           `json:"took_nano"`
	Open    bool             `json:"open"`
	Bars    []bar            `json:"bars"`
	Failed  int              `json:"failed"`     // the number of failed spans
	Slow    int              `json:"slow"`       // the number of slow spans
	Least   int64            `json:"least_nano"` // if Of is not failed: the spans in question took at least this long
	Most    int64            `json:"most_nano"`  // if Of is drawn: the spans in question took less than this; otherwise 0
	Of      string           `json:"of"`         // the spans in question: slow, failed or drawn; empty if there are none
	Among   bool             `json:"among"`
	Shares  query.Contrast   `json:"shares"`
	Request query.Contrast   `json:"request"` // the attributes of the spans' requests, if Shares is empty
	Follows []string         `json:"follows"` // queries for values that the failed spans share because they failed
	Period  *analyze.Period  `json:"period"`  // when most of the spans in question began; nil: at all times
	Beside  []analyze.Beside `json:"beside"`
	CPU     *processorTime   `json:"cpu"`     // nil if there are no samples
	Against *against         `json:"against"` // nil if the page has no other trace to compare with
}

// A bar is the number of spans whose durations are in [From, To), in nanoseconds.
type bar struct {
	From  int64 `json:"from_nano"`
	To    int64 `json:"to_nano"`
	Count int   `json:"count"`
}

const maxShares = 6 // the maximum number of values of a field in an answer

// whereNamesake returns a query that selects the spans with the same name and service as the span at row r.
func whereNamesake(v *view.View, r view.Row) string {
	return "{ entry:role = span && " + query.Where("name", v.Name(r)) + " && " + query.Where("service", v.Service(r)) + " }"
}

// contrastOf converts c to the form that the page shows. If differing is true, it keeps only values that are more
// frequent in the first set than in the others. If beside is true, the page compares the first set with all rows
// and not with the others.
func contrastOf(c *query.Contrast, differing, beside bool) query.Contrast {
	fields := []query.FieldShares{}
	for _, f := range c.Fields {
		all := f.Values
		f.Values = nil
		for _, v := range all {
			switch {
			// The page shows only values that are more frequent in the first set.
			case differing && (v.Chance || v.Difference <= 0):
				continue
			case len(f.Values) == maxShares:
				f.More++
				continue
			}
			if !v.Chance {
				apart := v.Difference
				if beside {
					apart = float64(v.In)/float64(max(1, c.In)) - float64(v.In+v.Others)/float64(max(1, c.In+c.Others))
				}
				f.Points = max(f.Points, math.Round(100*math.Abs(apart)))
			}
			v.Text = preview(v.Label())
			f.Values = append(f.Values, v)
		}
		if len(f.Values) > 0 && (!differing || f.Points >= 1) {
			fields = append(fields, f)
		}
	}
	c.Fields = fields
	return *c
}

// facets answers with the fields of the rows in the window, and with the differences between the rows that the
// query selects and the other rows. If the parameter alike is set, only other rows of the same names count.
func (q *request) facets(ctx context.Context) (any, error) {
	found, err := q.selected(ctx, "{}")
	if err != nil {
		return nil, err
	}
	all := q.withoutSamples(found.rows)
	in, others := q.run(all), q.run(q.v.NewSet())
	if text := q.Get("q"); text != "" {
		f, err := q.selected(ctx, text)
		if err != nil {
			return nil, err
		}
		in.Rows = both(all, f.rows)
		others.Rows = without(all, f.rows)
	}
	than, err := q.side(ctx)
	if err != nil {
		return nil, err
	}
	if than != nil {
		others = than.run()
	} else if q.Has("alike") {
		others.Rows = q.namesakes(others.Rows, in.Rows)
	}
	c, err := query.ContrastOf(ctx, in, others)
	if err != nil {
		return nil, err
	}
	return contrastOf(c, false, than == nil), nil
}

// namesakes returns the rows of the first set that have the same name as a row of the second set.
func (s *state) namesakes(rows, of view.Set[view.Row]) view.Set[view.Row] {
	names, out := make(map[string]bool), s.v.NewSet()
	for r := range of.All() {
		names[s.v.Name(r)] = true
	}
	for r := range rows.All() {
		if names[s.v.Name(r)] {
			out.Add(r)
		}
	}
	return out
}

// without returns the rows of a that are not in b.
func without(a, b view.Set[view.Row]) view.Set[view.Row] {
	out := make(view.Set[view.Row], len(a))
	for i := range out {
		out[i] = a[i] &^ b[i]
	}
	return out
}

// why answers why a span took so long or failed.
func (q *request) why(ctx context.Context) (any, error) {
	r := q.row("row")
	if q.err != nil {
		return nil, q.err
	}
	v := q.v
	if v.Role(r) != view.RoleSpan {
		return nil, badRequest("the row is not a span")
	}
	where, outside := whereNamesake(v, r), false
	same, err := q.selected(ctx, where)
	if err != nil {
		return nil, err
	}
	if q.Has("window") && !same.rows.Has(r) { // r is outside the window: compare it with all spans of the same name
		q.Del("window")
		outside = true
		same, err = q.selected(ctx, where)
		if err != nil {
			return nil, err
		}
	}
	out, in, err := q.whyOf(ctx, r, same.rows, q.Get("of"))
	if err != nil {
		return nil, err
	}
	out.Where, out.Outside = where, outside
	if root := v.Outermost(r); root != r {
		out.Without = where + " !<< " + whereNamesake(v, root)
	}
	if q.Get("than") == "" { // without than, compare all spans of the name with the other trace
		q.Del("q")
	}
	than, err := q.side(ctx)
	if err != nil {
		return nil, err
	}
	if than != nil {
		if err := q.whyAgainst(ctx, out, than); err != nil {
			return nil, err
		}
	}
	out.Beside = analyze.RanBeside(v, r, in, without(same.rows, in))
	for i := range out.Beside {
		out.Beside[i].Name = preview(out.Beside[i].Name)
	}
	out.CPU, err = q.processorTime(ctx, r, same.rows)
	if err != nil {
		return nil, err
	}
	return out, nil
}

// whyOf compares the span r with all spans of the same name, which are in the set "same". The result "in" has the
// spans in question: the slow, the failed or the drawn spans. They are compared with the other spans of "same".
func (s *state) whyOf(ctx context.Context, r view.Row, same view.Set[view.Row], of string) (out *why, in view.Set[view.Row], err error) {
	v := s.v
	out = &why{Name: preview(v.Name(r)), Service: v.Service(r), Open: v.Flags(r).Open(), Shares: query.Contrast{Fields: []query.FieldShares{}}, Request: query.Contrast{Fields: []query.FieldShares{}}, Beside: []analyze.Beside{}, Follows: []string{}}
	mine := int64(-1)
	if took, known := v.Lasted(r); known {
		mine = int64(took)
		out.Took = &mine
	}
	d := durationsOf(v, same)
	out.Count, out.Failed, out.Bars, out.Slow, out.Median = len(d.list), d.failed, d.bars(), len(stat.Slow(d.list)), d.median()
	out.Faster, _ = slices.BinarySearch(d.list, mine)
	least, most := int64(math.MaxInt64), int64(math.MaxInt64)
	if out.Slow > 0 {
		least = d.list[len(d.list)-out.Slow]
	}
	failed := v.Flags(r).IsError()
	switch {
	case strings.Contains(of, "-"):
		if _, err := fmt.Sscanf(of, "%d-%d", &least, &out.Most); err != nil {
			return nil, nil, badRequest("parameter \"of\" must be slow, failed or two durations")
		}
		out.Of, most = "drawn", out.Most-1
		out.Among = mine >= least && mine <= most
	case (of == "failed" && d.failed > 0 || of == "" && failed) && d.failed < same.Len():
		out.Of, out.Among = "failed", failed
	case out.Slow > 0:
		out.Of, out.Among = "slow", mine >= least
	case d.failed > 0 && d.failed < same.Len():
		out.Of, out.Among = "failed", failed
	}
	out.Least = least
	in = v.NewSet()
	for r := range same.All() {
		took, known := v.Lasted(r)
		if out.Of == "failed" && v.Flags(r).IsError() || out.Of != "failed" && known && int64(took) >= least && int64(took) <= most {
			in.Add(r)
		}
	}
	if out.Of == "" {
		return out, in, nil
	}
	c, err := query.ContrastOf(ctx, s.run(in), s.run(without(same, in)))
	if err != nil {
		return nil, nil, err
	}
	if out.Of == "failed" { // leave out fields that only repeat that the spans failed
		c.Fields = slices.DeleteFunc(c.Fields, func(f query.FieldShares) bool { return f.Field == "level" || f.Field == "status" })
	}
	out.Shares = contrastOf(c, true, false)
	if out.Of == "failed" {
		out.Shares.Fields = slices.DeleteFunc(out.Shares.Fields, func(f query.FieldShares) bool {
			if !analyze.SaysOutcome(f.Field) {
				return false
			}
			out.Follows = append(out.Follows, f.Values[0].Where)
			return true
		})
	}
	if len(out.Shares.Fields) == 0 && v.Outermost(r) != r {
		mine, others := v.NewSet(), v.NewSet()
		for r := range in.All() {
			mine.Add(v.Outermost(r))
		}
		for r := range without(same, in).All() {
			others.Add(v.Outermost(r))
		}
		c, err = query.ContrastOf(ctx, s.run(mine), s.run(without(others, mine)))
		if err != nil {
			return nil, nil, err
		}
		c.Fields = slices.DeleteFunc(c.Fields, func(f query.FieldShares) bool { return f.Field[0] != '.' || analyze.SaysOutcome(f.Field) })
		out.Request = contrastOf(c, true, false)
	}
	out.Period = analyze.PeriodOf(v, in, same)
	return out, in, nil
}

// An against compares the spans of one name and service here with such spans on the other side. If the request has a
// query for the other side, each side has only the spans that its own query selects.
type against struct {
	Here   group          `json:"here"`
	There  group          `json:"there"`
	Shares query.Contrast `json:"shares"`
}

// A group summarizes the durations and failures of a set of spans.
type group struct {
	Count  int   `json:"count"` // the number of spans that have ended
	Failed int   `json:"failed"`
	Median int64 `json:"median_nano"`
}

func groupOf(v *view.View, rows view.Set[view.Row]) group {
	d := durationsOf(v, rows)
	return group{len(d.list), d.failed, d.median()}
}

// whyAgainst sets out.Against. Without a query, it compares all spans of the name and service.
func (q *request) whyAgainst(ctx context.Context, out *why, than *side) error {
	here, err := q.selected(ctx, q.Get("q"))
	if err != nil {
		return err
	}
	same, err := q.selected(ctx, out.Where)
	if err != nil {
		return err
	}
	there, err := than.of.found(ctx, out.Where)
	if err != nil {
		return err
	}
	a, b := q.run(both(here.rows, same.rows)), than.of.run(both(than.rows, there.rows))
	c, err := query.ContrastOf(ctx, a, b)
	if err != nil {
		return err
	}
	out.Against = &against{groupOf(a.View, a.Rows), groupOf(b.View, b.Rows), contrastOf(c, true, false)}
	return nil
}

// A durations holds the durations of the spans that have ended, in ascending order, and the number of failed
// spans.
type durations struct {
	list   []int64
	failed int
}

func durationsOf(v *view.View, rows view.Set[view.Row]) *durations {
	d := new(durations)
	for r := range rows.All() {
		if v.Flags(r).IsError() {
			d.failed++
		}
		if took, ended := v.Duration(r); ended && took >= 0 {
			d.list = append(d.list, int64(took))
		}
	}
	slices.Sort(d.list)
	return d
}

// median returns the lower median of the durations, or 0 if there are none.
func (d *durations) median() int64 {
	if len(d.list) == 0 {
		return 0
	}
	return d.list[(len(d.list)-1)/2]
}

// bars returns a histogram of about sixty bars or fewer. All bars have the same width on a logarithmic axis.
func (d *durations) bars() []bar {
	out := []bar{}
	if len(d.list) == 0 {
		return out
	}
	from, last := d.list[0], d.list[len(d.list)-1]
	wide := max(.05, (math.Log1p(float64(last))-math.Log1p(float64(from)))/60)
	for left := d.list; len(left) > 0; {
		b := bar{From: from, To: math.MaxInt64, Count: len(left)}
		if to := math.Expm1(math.Log1p(float64(from)) + wide); to < math.MaxInt64 {
			b.To = max(from+1, int64(to))
			b.Count, _ = slices.BinarySearch(left, b.To)
		}
		out, from, left = append(out, b), b.To, left[b.Count:]
	}
	return out
}
