package timeline

import (
	"context"

	"github.com/entrace-go/entrace/view"
)

// A Moment is an event on a timeline: the beginning of a span, or a mark.
type Moment struct {
	IsSpan bool
	Time   int64
	End    int64 // of a span
	Row    view.Row
	Group  int32
	Lane   int32
	Flows  []FlowEnd // the arrows that start or end at the span
}

// Moments calls fn for each span and each mark, in chronological order. A mark comes after its span. The moment is
// valid until fn returns.
func (t *Timeline) Moments(ctx context.Context, fn func(m *Moment) error) error {
	flows, marks, calls := t.ends, t.marks, 0
	var now Moment
	call := func(m Moment) error {
		calls++
		if calls%1024 == 0 && ctx.Err() != nil {
			return ctx.Err()
		}
		now = m
		return fn(&now)
	}
	for _, r := range t.begins {
		start := t.start(r)
		for len(marks) > 0 {
			at := t.at(marks[0])
			if at > start || at == start && t.markOrder(marks[0]) == 1 {
				break
			}
			if err := call(t.mark(marks[0], at)); err != nil {
				return err
			}
			marks = marks[1:]
		}
		n := 0
		for n < len(flows) && flows[n].row == r {
			n++
		}
		if err := call(Moment{true, start, t.end(r), view.Row(r), t.group(r), t.lane(r), flows[:n]}); err != nil {
			return err
		}
		flows = flows[n:]
	}
	for _, r := range marks {
		if err := call(t.mark(r, t.at(r))); err != nil {
			return err
		}
	}
	return ctx.Err()
}

// mark returns the moment of a mark. Its lane is that of its span.
func (t *Timeline) mark(r int32, at int64) Moment {
	m := Moment{Time: at, Row: view.Row(r), Group: t.markGroup(r)}
	m.Lane = t.Processes[m.Group].Lanes
	if in := t.spanDuring(r); in >= 0 {
		m.Lane = t.lane(in)
	}
	return m
}
