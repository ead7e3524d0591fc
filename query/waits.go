package query

import (
	"cmp"
	"context"
	"slices"

	"github.com/entrace-go/entrace/internal/gotrace"
	"github.com/entrace-go/entrace/view"
)

// A WaitTotal says how long spans waited at one place in the program, or for the runtime.
type WaitTotal struct {
	State string // as in the names of the query language, such as mutex
	Time  int64  // nanoseconds
	Spans int    // that waited
	// Frame is where they waited, in the program itself, and Stack all of it; nil for what is no wait at a
	// place, such as runnable.
	Frame *Frame
	Stack []Frame
	// In has the names of the spans that waited, By those of the spans that ended the waits, each with their
	// time, the longest first, maxWaitNames at most.
	In, By  []NameTime
	Longest view.Row // the span that waited longest at once
	Procs   int      // GOMAXPROCS, of runnable; 0 if it is not known
}

// A NameTime is a time and the name of the spans that it belongs to.
type NameTime struct {
	Name string
	Time int64
}

const maxWaitNames = 3

// Waits returns at what places the spans among some rows waited longest, as far as execution traces in the files
// tell, limit places at most. Waits at a place are those of a millisecond or more. A wait of a goroutine that
// a span has created counts for that span as long as it is open.
func Waits(ctx context.Context, v *view.View, rows view.Set[view.Row], limit int) ([]WaitTotal, error) {
	states, err := v.States(ctx)
	if err != nil {
		return nil, err
	}
	type place struct {
		state gotrace.State
		frame Frame
	}
	all := make(map[place]*waitSum)
	of := func(p place) *waitSum {
		s := all[p]
		if s == nil {
			s = &waitSum{WaitTotal: WaitTotal{State: p.state.String()}, spans: make(map[view.Row]bool), in: make(map[string]int64), by: make(map[string]int64)}
			all[p] = s
		}
		return s
	}
	for n, t := range states.Traces() {
		if t.Trace == nil {
			continue
		}
		for i := range t.Waits {
			w := &t.Waits[i]
			r, known := states.Row(n, w.Span)
			if !known || !rows.Has(r) || !states.Is(r, n, w.Span) {
				continue
			}
			c := &t.Classes[w.Class]
			p := place{state: c.State}
			if own := c.Own(); own != nil {
				p.frame = *own
			}
			s := of(p)
			s.Stack, s.Frame = c.Stack, c.Own()
			s.add(v, r, w.To-w.From)
			if by, known := states.Row(n, w.By); known {
				s.by[v.Name(by)] += w.To - w.From
			}
		}
		for i := range t.Spans {
			r, known := states.Row(n, int32(i))
			if !known || !rows.Has(r) || !states.Is(r, n, int32(i)) {
				continue
			}
			own := t.Own(&t.Spans[i])
			for _, state := range []gotrace.State{gotrace.Runnable, gotrace.GCWork, gotrace.GCWait} {
				if d := int64(own[state]) * 1000; d > 0 {
					s := of(place{state: state})
					s.add(v, r, d)
					s.Procs = t.Procs
				}
			}
		}
	}
	var out []WaitTotal
	for _, s := range all {
		if s.Time < gotrace.LongWait {
			continue
		}
		s.Spans, s.In, s.By = len(s.spans), longest(s.in), longest(s.by)
		out = append(out, s.WaitTotal)
	}
	slices.SortFunc(out, func(a, b WaitTotal) int {
		return cmp.Or(cmp.Compare(b.Time, a.Time), cmp.Compare(a.State, b.State), cmp.Compare(a.Longest, b.Longest))
	})
	return out[:min(len(out), limit)], ctx.Err()
}

type waitSum struct {
	WaitTotal

	spans  map[view.Row]bool
	in, by map[string]int64
	most   int64
}

func (s *waitSum) add(v *view.View, r view.Row, d int64) {
	s.Time += d
	s.spans[r] = true
	s.in[v.Name(r)] += d
	if d > s.most {
		s.most, s.Longest = d, r
	}
}

// longest returns the names with the longest times.
func longest(times map[string]int64) []NameTime {
	list := make([]NameTime, 0, len(times))
	for name, d := range times {
		list = append(list, NameTime{name, d})
	}
	slices.SortFunc(list, func(a, b NameTime) int {
		return cmp.Or(cmp.Compare(b.Time, a.Time), cmp.Compare(a.Name, b.Name))
	})
	return list[:min(len(list), maxWaitNames)]
}
