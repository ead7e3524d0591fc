package analyze

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"github.com/entrace-go/entrace/query"
	"github.com/entrace-go/entrace/view"
)

// findPattern is the kind of a finding about a pattern of errors.
const findPattern = "pattern"

// A change says whether a pattern of errors is new, more frequent or gone. Patterns are reported in the order of
// these values.
type change int

const (
	isNew change = iota
	moreFrequent
	gone
	asBefore
)

func (c change) String() string { return [...]string{"new", "more frequent", "gone", "as before"}[c] }

const (
	timesMore = 3  // a pattern is more frequent if it occurs at least this many times as often as before
	newAfter  = 20 // a pattern is new if it does not occur in the first newAfter-th part of the recording
)

// explainRecords explains a recording that has no requests: which patterns of errors are new, more frequent or gone,
// and when the new patterns began. Without a baseline, a pattern is new if it does not occur at the beginning.
func (w *workload) explainRecords(ctx context.Context, q *Question) (*Explanation, error) {
	x := &Explanation{Verdict: "no cause found: there are no requests to compare"}
	v := q.Now[0].View
	now, errs, err := patternsOf(ctx, q.Now[0])
	var before []ErrorPattern
	wereErrs := 0
	if err == nil && len(q.Before) > 0 {
		before, wereErrs, err = patternsOf(ctx, q.Before[0])
	}
	if err != nil {
		return x, err
	}
	start, end, _ := v.Period()
	for _, p := range now {
		f := Finding{Kind: findPattern, Share: float64(p.Count) / float64(errs), Of: "the errors", Row: p.First, change: asBefore}
		same := slices.IndexFunc(before, func(b ErrorPattern) bool { return b.Pattern == p.Pattern })
		at, timed := v.Start(p.First)
		switch {
		case len(q.Before) == 0 && timed && at > start+(end-start)/newAfter, len(q.Before) > 0 && same < 0:
			f.change = isNew
		case same >= 0 && p.Count >= timesMore*max(few, before[same].Count):
			f.change = moreFrequent
		}
		f.said = fmt.Sprintf("%s, %d×", p.Pattern, p.Count)
		if timed {
			f.at = at
			f.said += fmt.Sprintf(" from %s on", w.clock(Time(at)))
		}
		if m := v.Metadata(p.First); m.Line.Valid {
			f.said += fmt.Sprintf(", in %s:%d", m.File.Value, m.Line.Value)
		}
		x.Where = append(x.Where, f)
	}
	for _, p := range before {
		if !slices.ContainsFunc(now, func(n ErrorPattern) bool { return n.Pattern == p.Pattern }) {
			x.Where = append(x.Where, Finding{
				Kind: findPattern, Share: float64(p.Count) / float64(wereErrs), Of: "the errors before", change: gone, said: fmt.Sprintf("%s, %d× before", p.Pattern, p.Count),
			})
		}
	}
	slices.SortStableFunc(x.Where, func(a, b Finding) int { return cmp.Or(cmp.Compare(a.change, b.change), cmp.Compare(a.at, b.at)) })
	for i := range x.Where {
		f := &x.Where[i]
		f.Text = f.said
		if f.change != asBefore || len(q.Before) > 0 {
			f.Text = fmt.Sprintf("%s: %s", f.change, f.said)
		}
	}
	if len(x.Where) > 0 {
		first := x.Where[0]
		x.Alarming = first.change == isNew || first.change == moreFrequent
		if x.Alarming {
			x.Verdict = first.Text
		} else {
			x.Verdict += "; the first error: " + first.said
		}
	}
	if len(q.Before) == 0 && len(q.Now) == 1 {
		x.Deaths = w.died(v, q.Deaths)
	}
	if len(x.Deaths) > 0 {
		x.Verdict, x.Alarming = x.Deaths[0].Text, true
	}
	return x, nil
}

// patternsOf returns the patterns of the errors in a run, and the number of errors.
func patternsOf(ctx context.Context, run query.Run) (list []ErrorPattern, n int, err error) {
	var errs []view.Row
	for r := range run.Rows.All() {
		if run.View.Flags(r).IsError() {
			errs = append(errs, r)
		}
	}
	var o Overview
	err = o.patterns(ctx, run.View, run.Rows, errs, maxPatterns)
	return o.Patterns, len(errs), err
}
