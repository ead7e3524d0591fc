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

// How often a pattern of errors occurs, compared with before. In this order, patterns are reported.
const (
	patternNew  = "new"
	patternMore = "more frequent"
	patternGone = "gone"
	patternSame = "as before"
)

const (
	timesMore = 3  // how often a pattern must occur, compared with before, to be more frequent
	newAfter  = 20 // a pattern is new if it first occurs after this part of the recording
)

// explainRecords explains a recording that has no requests: which patterns of errors are new, more frequent or gone, and
// since when. Without a baseline, a pattern is new if it does not occur at the beginning.
func (w *workload) explainRecords(ctx context.Context, q *Question) (*Explanation, error) {
	x := &Explanation{Verdict: "no cause found: there are no requests to compare", Complete: true}
	v := q.Now[0].View
	now, errs, err := patternsOf(ctx, q.Now[0])
	var before []ErrorPattern
	wereErrs := 0
	if err == nil && len(q.Before) > 0 {
		before, wereErrs, err = patternsOf(ctx, q.Before[0])
	}
	if err != nil || len(now)+len(before) == 0 {
		return x, err
	}
	start, end, _ := v.Period()
	for _, p := range now {
		at, _ := v.Start(p.First)
		same := slices.IndexFunc(before, func(b ErrorPattern) bool { return b.Pattern == p.Pattern })
		f := Finding{Kind: findPattern, Share: float64(p.Count) / float64(errs), Row: p.First, at: at, change: patternSame}
		switch {
		case len(q.Before) == 0 && at > start+(end-start)/newAfter, len(q.Before) > 0 && same < 0:
			f.change = patternNew
		case same >= 0 && p.Count >= timesMore*max(few, before[same].Count):
			f.change = patternMore
		}
		f.Text = fmt.Sprintf("%s: %s, %d times from %s on", f.change, p.Pattern, p.Count, w.clock(Time(at)))
		if m := v.Metadata(p.First); m.Line.Valid {
			f.Text += fmt.Sprintf(", in %s:%d", m.File.Value, m.Line.Value)
		}
		x.Where = append(x.Where, f)
	}
	for _, p := range before {
		if !slices.ContainsFunc(now, func(n ErrorPattern) bool { return n.Pattern == p.Pattern }) {
			text := fmt.Sprintf("%s: %s, %d times before", patternGone, p.Pattern, p.Count)
			x.Where = append(x.Where, Finding{Kind: findPattern, Text: text, Share: float64(p.Count) / float64(wereErrs), change: patternGone})
		}
	}
	order := []string{patternNew, patternMore, patternGone, patternSame}
	slices.SortStableFunc(x.Where, func(a, b Finding) int {
		return cmp.Or(slices.Index(order, a.change)-slices.Index(order, b.change), cmp.Compare(a.at, b.at))
	})
	x.Verdict = x.Where[0].Text
	x.Alarming = x.Where[0].change == patternNew || x.Where[0].change == patternMore
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
