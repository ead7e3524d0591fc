package analyze

import (
	"context"
	"fmt"
	"slices"

	"github.com/entrace-go/entrace/view"
)

// length returns the time from the start of the first request to the start of the last one.
func (w *workload) length() Time {
	return Time(w.requests[len(w.requests)-1].start - w.requests[0].start)
}

// near reports whether two times are so close to each other that only one of them is worth reporting.
func (w *workload) near(a, b Time) bool { return max(a-b, b-a) < w.length()/50 }

// onset adds evidence about other events to the cause c: many more garbage collections since the cause began, or an
// error that happened only at that time.
func (w *workload) onset(ctx context.Context, x *Explanation, c *Cause) error {
	v, from, to := w.requests[0].view, c.From, c.To
	if from == NoTime && x.Since != nil {
		from = x.Since.At
	}
	first := Time(w.requests[0].start)
	if from == NoTime || from <= first {
		return nil
	}
	if to == NoTime {
		to = first + w.length()
	}
	at := slices.IndexFunc(c.Evidence[1:], func(e Evidence) bool { return e.Kind != KindShare }) + 1
	if at == 0 {
		at = len(c.Evidence)
	}
	add := func(pattern, text string) {
		c.Evidence = slices.Insert(c.Evidence, at, Evidence{Kind: KindOnset, Pattern: pattern, Text: text, Sure: true})
	}
	r, err := RuntimeOf(ctx, v)
	if err != nil {
		return err
	}
	var n [2]float64
	for _, s := range r.Collections {
		if s.Time < int64(from) {
			n[0] += float64(s.Count)
		} else if s.Time <= int64(to) {
			n[1] += float64(s.Count)
		}
	}
	if was, is := 1e9*n[0]/float64(from-first), 1e9*n[1]/float64(max(1, to-from)); n[1] >= fewApart && is > farAbove*was {
		add("garbage collections", fmt.Sprintf("garbage is collected %.2g times a second from then on, before %.2g", is, was))
	}
	return errorsThen(ctx, v, from-w.length()/splits, from+w.length()/50, add)
}

// errorsThen adds an error of a kind that happened only once, if it happened between the times after and
// before.
func errorsThen(ctx context.Context, v *view.View, after, before Time, add func(pattern, text string)) error {
	found, err := find(ctx, v, "{ (span:failed || level >= error) && entry:role != event && entry:role != recorder }")
	if err != nil {
		return err
	}
	var o Overview
	err = o.patterns(ctx, v, found.Rows, slices.Collect(found.Rows.All()), maxPatterns)
	for _, p := range o.Patterns {
		if start, timed := v.Start(p.First); timed && p.Count == 1 && Time(start) > after && Time(start) < before {
			add(p.Pattern, "only then: error "+p.Pattern)
			break
		}
	}
	return err
}
