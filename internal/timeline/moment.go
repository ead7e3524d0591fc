package timeline

import (
	"cmp"
	"context"
	"slices"

	"github.com/entrace-go/entrace/view"
)

// A Moment is something that happens: a span begins or ends, or a mark.
type Moment struct {
	What  What
	Time  int64
	Row   view.Row
	Slice int32 // the span itself, or the one that the mark is in, -1 for none
	Group int32
	Lane  int32
	Flows []FlowEnd // of what begins
}

// What happens at a [Moment].
type What uint8

// What can happen.
const (
	Begins What = iota
	Ends
	Happens
)

// Moments calls fn for all that happens, in the order of time and such that on
// each lane what began last ends first. A mark comes while its span lasts.
func (t *Timeline) Moments(ctx context.Context, fn func(m *Moment) error) error {
	w := &moments{Timeline: t, ctx: ctx, fn: fn, ending: make([]int32, len(t.order)), ended: make([]bool, len(t.order)), first: make([]int32, len(t.Processes)+1)}
	for i := range t.Processes {
		w.first[i+1] = w.first[i] + t.Processes[i].Lanes
	}
	w.tops, w.below = make([]int32, w.first[len(t.Processes)]), make([]int32, len(t.order))
	for i := range w.tops {
		w.tops[i] = -1
	}
	ranks := make([]int32, len(t.order))
	for rank, i := range t.order {
		w.ending[rank], ranks[i] = i, int32(rank)
	}
	slices.SortFunc(w.ending, func(a, b int32) int {
		return cmp.Or(cmp.Compare(t.Slices[a].End, t.Slices[b].End), cmp.Compare(ranks[b], ranks[a]))
	})
	flows, marks := t.ends, t.Marks
	for _, i := range t.order {
		s := &t.Slices[i]
		for len(marks) > 0 && (marks[0].Time < s.Start || marks[0].Time == s.Start && t.turn(&marks[0]) == 0) {
			w.mark(&marks[0])
			marks = marks[1:]
		}
		n := 0
		for n < len(flows) && flows[n].Slice == i {
			n++
		}
		w.begin(i, flows[:n])
		flows = flows[n:]
	}
	for i := range marks {
		w.mark(&marks[i])
	}
	for _, i := range w.ending {
		if !w.ended[i] {
			w.end(i)
		}
	}
	return w.err
}

type moments struct {
	*Timeline

	ctx    context.Context //nolint:containedctx // of the one call that w lives for
	fn     func(m *Moment) error
	ending []int32 // Slices by their ends; on one lane, the one that began last comes first
	ended  []bool  // which of them have been ended
	first  []int32 // the first lane of each process in tops
	tops   []int32 // what began last and is open on each lane, or -1
	below  []int32 // what was on top of the lane when each of Slices began
	calls  int
	err    error // the first; nothing is called any more
	m      Moment
}

func (w *moments) call(m Moment) {
	if w.calls++; w.calls%1024 == 0 && w.err == nil {
		w.err = w.ctx.Err()
	}
	if w.err == nil {
		w.m = m
		w.err = w.fn(&w.m)
	}
}

func (w *moments) top(i int32) *int32 { return &w.tops[w.first[w.Slices[i].Group]+w.Lanes[i]] }

// until ends whatever ended before that time.
func (w *moments) until(time int64) {
	for len(w.ending) > 0 {
		i := w.ending[0]
		if w.ended[i] {
			w.ending = w.ending[1:]
			continue
		}
		if w.Slices[i].End >= time {
			return
		}
		w.end(i)
	}
}

// end ends what began last on its lane.
func (w *moments) end(i int32) {
	*w.top(i) = w.below[i]
	w.ended[i] = true
	w.call(Moment{What: Ends, Time: w.Slices[i].End, Row: w.Rows[i], Slice: i, Group: w.Slices[i].Group, Lane: w.Lanes[i]})
}

// settle ends what ends at that very time on the lane of i, as far as it is on
// top of keep.
func (w *moments) settle(i, keep int32, time int64) {
	for top := w.top(i); *top >= 0 && *top != keep && w.Slices[*top].End <= time; {
		w.end(*top)
	}
}

func (w *moments) begin(i int32, flows []FlowEnd) {
	s := &w.Slices[i]
	w.until(s.Start)
	keep := s.Parent
	if keep >= 0 && w.Slices[keep].End < s.End {
		keep = -1 // it is not within its parent
	}
	w.settle(i, keep, s.Start)
	top := w.top(i)
	w.below[i], *top = *top, i
	w.call(Moment{What: Begins, Time: s.Start, Row: w.Rows[i], Slice: i, Group: s.Group, Lane: w.Lanes[i], Flows: flows})
}

func (w *moments) mark(k *Mark) {
	w.until(k.Time)
	at := w.Processes[k.Group].Lanes
	if k.Slice >= 0 {
		w.settle(k.Slice, k.Slice, k.Time)
		at = w.Lanes[k.Slice]
	}
	w.call(Moment{What: Happens, Time: k.Time, Row: k.Row, Slice: k.Slice, Group: k.Group, Lane: at})
}
