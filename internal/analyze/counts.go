package analyze

import (
	"cmp"
	"maps"
	"slices"

	"github.com/entrace-go/entrace/view"
)

const (
	mostCounts = 4 // the maximum number of counts that are compared, per span
	moreOften  = 2 // more calls are evidence if an operation is called at least this many times as often
)

// A retries counts the calls of an operation and its retries: calls that follow a failed call by the same span.
type retries struct {
	operation

	calls, again int
	example      view.Row
}

// called counts the calls that the spans of a request make. A call after a failed call is a retry and does not count,
// because the failure is the cause.
func (w *workload) called(spans []*member) {
	for _, s := range slices.Backward(spans) { // in this direction, children precede their parents
		if s.up != nil {
			s.up.below += s.own + s.below
		}
	}
	failed := make(map[arrow]*member)
	for _, s := range spans {
		s.number = len(w.callers[s.operation])
		w.callers[s.operation] = append(w.callers[s.operation], s.call)
		if s.up == nil {
			continue
		}
		a := arrow{s.up.operation, s.operation}
		tries := at(w.retries, operation{service: s.service, name: s.name})
		tries.calls++
		if failed[a] == s.up {
			tries.again++
			tries.example = s.row
			continue
		}
		if s.failed {
			failed[a] = s.up
		}
		c := at(w.arrows, a)
		c.calls, c.time = c.calls+1, c.time+s.own+s.below
		if last := len(c.by) - 1; last >= 0 && c.by[last].span == s.up.number {
			c.by[last].calls++
		} else {
			c.by = append(c.by, callCount{s.up.number, 1})
		}
	}
}

// count adds the samples of numbers of calls of all runs. It omits arrows whose calls take too little time, and arrows
// along which all spans make the same number of calls.
func (w *workload) count() {
	left, total := 0, int64(0)
	for _, list := range w.callers {
		left += mostCounts * len(list)
	}
	for _, q := range w.requests {
		total += q.took
	}
	for _, a := range slices.SortedFunc(maps.Keys(w.arrows), func(a, b arrow) int {
		return cmp.Or(cmp.Compare(w.arrows[b].time, w.arrows[a].time), a.compare(b))
	}) {
		x, callers := w.arrows[a], w.callers[a.from]
		if float64(x.time) < leastTime*float64(total) || len(callers) > left {
			break
		}
		c := &counted{a, max(1, x.time/x.calls)}
		list := make([]duration, len(callers))
		for i, by := range callers {
			list[i].call = by
		}
		for _, by := range x.by {
			list[by.span].took += int64(by.calls) * c.each
		}
		if slices.ContainsFunc(list, func(d duration) bool { return d.took != list[0].took }) {
			left -= len(callers)
			w.samples = append(w.samples, &sample{sampled: sampled{operation: a.operation()}, calls: c, list: list})
		}
	}
	w.callers, w.arrows = nil, nil
}

// moreCalls judges how often spans call other operations. If spans call one operation more often and others less
// often, only the mix of requests has changed, and moreCalls leaves it out.
func moreCalls(all []*series) []*series {
	grown := make(map[operation]float64) // by operation: the additional calls per span
	for _, s := range all {
		s.far = 0
		s.judge(0, 1, nil) // no shift is removed, because a busy machine does not change counts
		was, is := s.means()
		s.grown = (is - was) / float64(s.calls.each)
		grown[s.calls.from] += s.grown
		if is < moreOften*was {
			s.p = 0
		}
	}
	return slices.DeleteFunc(all, func(s *series) bool { return grown[s.calls.from] < s.grown/2 })
}

// means returns the means of the values before and now.
func (s *series) means() (was, is float64) {
	for _, d := range s.list {
		if d.isNow() {
			is += float64(d.took) / float64(s.m)
		} else {
			was += float64(d.took) / float64(s.n)
		}
	}
	return was, is
}
