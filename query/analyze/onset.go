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

// near reports whether two times are so close to each other that it does not matter which of them is told.
func (w *workload) near(a, b Time) bool { return max(a-b, b-a) < w.length()/50 }

// onset adds to a cause what else happened when it began: many more collections of garbage from then on, and errors
// that happened only then.
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
	at := slices.IndexFunc(c.Evidence[1:], func(e Evidence) bool { return e.Kind != "share" }) + 1
	if at == 0 {
		at = len(c.Evidence)
	}
	add := func(pattern, text string) {
		c.Evidence = slices.Insert(c.Evidence, at, Evidence{Kind: "onset", Pattern: pattern, Text: text, Sure: true})
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
	return w.errorsThen(ctx, v, from, add)
}

// errorsThen adds the errors that happened at most a few times, and only near a time.
func (w *workload) errorsThen(ctx context.Context, v *view.View, from Time, add func(pattern, text string)) error {
	found, err := find(ctx, v, "{ (span:failed || level >= error) && entry:role != event && entry:role != recorder }")
	if err != nil {
		return err
	}
	type kind struct{ n, near int }
	kinds, texts := make(map[string]*kind), errorTexts{v: v, ctx: ctx}
	var order []string
	for r := range found.Rows.All() {
		if passed, err := texts.passed(r, found.Rows); passed || err != nil {
			if err != nil {
				return err
			}
			continue
		}
		text, err := texts.of(r)
		if err != nil {
			return err
		}
		text = patternWith(text, true)
		k := kinds[text]
		if k == nil {
			k = new(kind)
			kinds[text], order = k, append(order, text)
		}
		k.n++
		if start, timed := v.Start(r); timed && Time(start) > from-w.length()/splits && Time(start) < from+w.length()/50 {
			k.near++
		}
	}
	for _, text := range order {
		if k := kinds[text]; k.near == k.n && k.n <= few {
			add(text, "only then: error "+text)
			return nil
		}
	}
	return nil
}
