package timeline

import (
	"context"

	"github.com/entrace-go/entrace/view"
)

// A Moment is an event on a timeline: the begin of a span, the end of a span, or a mark.
type Moment struct {
	Kind  Kind
	Time  int64
	End   int64 // for Begins: the end of the span
	Row   view.Row
	Group int32
	Lane  int32
	Flows []FlowEnd // for Begins: the arrows that start or end at the span
}

// Kind is the kind of a [Moment].
type Kind uint8

// The kinds of moments.
const (
	Begins Kind = iota
	Ends
	Happens
)

// Moments calls fn for each moment, in the order of time. On each lane, the span that began last ends first. A
// mark comes after the begin and before the end of its span.
func (t *Timeline) Moments(ctx context.Context, fn func(m *Moment) error) error {
	w := &moments{Timeline: t, ctx: ctx, fn: fn, ending: heap[*open]{before: endsBefore}, tops: make([][]*open, len(t.Processes))}
	for i := range t.Processes {
		w.tops[i] = make([]*open, t.Processes[i].Lanes)
	}
	flows, marks := t.ends, t.marks
	for _, r := range t.begins {
		start := t.start(r)
		for len(marks) > 0 {
			if at := t.at(marks[0]); at > start || at == start && t.markOrder(marks[0]) == 1 {
				break
			}
			w.mark(marks[0])
			marks = marks[1:]
		}
		n := 0
		for n < len(flows) && flows[n].row() == r {
			n++
		}
		w.begin(r, start, flows[:n])
		flows = flows[n:]
		if w.err != nil {
			return w.err
		}
	}
	for _, r := range marks {
		w.mark(r)
	}
	for len(w.ending.items) > 0 {
		w.endNext()
	}
	return w.err
}

type moments struct {
	*Timeline

	ctx    context.Context //nolint:containedctx // the context of the one call for which w exists
	fn     func(m *Moment) error
	ending heap[*open] // all open spans, and some spans that have ended
	tops   [][]*open   // by process and lane: the open span that began last
	begun  int
	spare  []*open
	calls  int
	err    error // the first error; after an error, fn is not called
	m      Moment
}

// An open is a span that has begun.
type open struct {
	row         int32
	group, lane int32
	end         int64
	begun       int   // the number of spans that began before it
	below       *open // the open span below it on its lane
	ended       bool
}

// endsBefore reports whether a ends before b. If two spans end at the same time, the span that began last ends first.
func endsBefore(a, b *open) bool {
	return a.end < b.end || a.end == b.end && a.begun > b.begun
}

func (w *moments) call(m Moment) {
	w.calls++
	if w.calls%1024 == 0 && w.err == nil {
		w.err = w.ctx.Err()
	}
	if w.err == nil {
		w.m = m
		w.err = w.fn(&w.m)
	}
}

// endNext removes the span that ends next from w.ending, and closes it unless it is already closed.
func (w *moments) endNext() {
	o := w.ending.pop()
	if !o.ended {
		w.close(o)
	}
	w.spare = append(w.spare, o)
}

// until closes all spans that ended before time.
func (w *moments) until(time int64) {
	for len(w.ending.items) > 0 && (w.ending.items[0].ended || w.ending.items[0].end < time) {
		w.endNext()
	}
}

// close ends a span, which must be the open span on its lane that began last.
func (w *moments) close(o *open) {
	w.tops[o.group][o.lane] = o.below
	o.ended = true
	w.call(Moment{Kind: Ends, Time: o.end, Row: view.Row(o.row), Group: o.group, Lane: o.lane})
}

// closeEnded closes spans on top of a lane that have ended at time. It stops at the span keep.
func (w *moments) closeEnded(group, lane, keep int32, time int64) {
	for top := &w.tops[group][lane]; *top != nil && (*top).row != keep && (*top).end <= time; {
		w.close(*top)
	}
}

func (w *moments) begin(r int32, start int64, flows []FlowEnd) {
	w.until(start)
	var o *open
	if n := len(w.spare); n > 0 {
		o, w.spare = w.spare[n-1], w.spare[:n-1]
	} else {
		o = new(open)
	}
	*o = open{row: r, group: w.group(r), lane: w.lane(r), end: w.end(r), begun: w.begun}
	keep := w.parent(r)
	if keep >= 0 && w.end(keep) < o.end {
		keep = -1 // the span is not within its parent
	}
	w.closeEnded(o.group, o.lane, keep, start)
	top := &w.tops[o.group][o.lane]
	o.below, *top = *top, o
	w.begun++
	w.ending.push(o)
	w.call(Moment{Kind: Begins, Time: start, End: o.end, Row: view.Row(r), Group: o.group, Lane: o.lane, Flows: flows})
}

func (w *moments) mark(r int32) {
	at := w.at(r)
	w.until(at)
	group, lane := w.markGroup(r), int32(0)
	if in := w.spanDuring(r); in >= 0 {
		lane = w.lane(in)
		w.closeEnded(group, lane, in, at)
	} else {
		lane = w.Processes[group].Lanes
	}
	w.call(Moment{Kind: Happens, Time: at, Row: view.Row(r), Group: group, Lane: lane})
}
