package analyze

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/entrace-go/entrace/internal/read/gotrace"
	"github.com/entrace-go/entrace/internal/read/spanstates"
	"github.com/entrace-go/entrace/view"
)

// A WaitTotal is the total time that spans waited at one place in the program, or for the runtime.
type WaitTotal struct {
	State string  `json:"state"` // the name of the state in the query language, such as mutex
	Time  int64   `json:"time_nano"`
	Spans int     `json:"spans"` // the number of spans that waited
	Stack []Frame `json:"stack"` // where the spans waited; empty for states without a place, such as runnable
	// In has the names of the spans that waited, and By has the names of the spans that ended the waits. Both are
	// sorted by time, the longest first, and have at most maxWaitNames names.
	In      []NameTime `json:"in"`
	By      []NameTime `json:"ended_by"`
	Longest view.Row   `json:"longest"` // the span with the longest single wait

	Frame *Frame `json:"-"` // the frame of Stack that is in the program itself
	Via   string `json:"-"` // the library function that waited and that Frame called, or ""
	Procs int    `json:"-"` // GOMAXPROCS, if State is runnable; 0 if it is not known
}

// A NameTime is a name of spans and the total time of these spans.
type NameTime struct {
	Name string `json:"name"`
	Time int64  `json:"time_nano"`
}

const maxWaitNames = 3

// Place returns a text that says where a wait was: the library function that waited, if any, and the frame of the
// program that called it. It returns "" if frame is nil.
func Place(via string, frame *Frame) string {
	switch {
	case frame == nil:
		return ""
	case via != "":
		return " in " + via + " at " + frame.String()
	}
	return " at " + frame.String()
}

// Text returns a short text that says what spans waited for, where, and which spans ended the waits.
func (x *WaitTotal) Text() string {
	spans := "1 span"
	if x.Spans != 1 {
		spans = strconv.Itoa(x.Spans) + " spans"
	}
	text := x.State + " in " + spans
	if len(x.In) > 0 {
		text += " of " + x.In[0].Name
		if x.In[0].Time < x.Time {
			text += " and others"
		}
	}
	text += Place(x.Via, x.Frame)
	if x.Procs > 0 && x.State == gotrace.Runnable.String() {
		text += fmt.Sprintf(": GOMAXPROCS is %d", x.Procs)
	}
	var by []string
	for _, n := range x.By {
		if share := float64(n.Time) / float64(x.Time); share >= .05 {
			by = append(by, fmt.Sprintf("%s (%.0f %% of the time)", n.Name, 100*share))
		}
	}
	if len(by) > 0 {
		text += ", ended by " + strings.Join(by, ", ")
	}
	return text
}

// Waits returns at most limit places at which spans waited longest. It counts the spans that are in the set rows or
// below one of these rows, if execution traces in the files cover them. A wait at a place counts if it took at
// least a millisecond. If a goroutine that a span created waits while the span is open, the wait counts for the
// span.
func Waits(ctx context.Context, v *view.View, rows view.Set[view.Row], limit int) ([]WaitTotal, error) {
	states, err := spanstates.Of(ctx, v)
	if err != nil {
		return nil, err
	}
	type place struct {
		state gotrace.State
		frame Frame
		via   string
	}
	// A span counts if it is one of the rows or below one.
	const maxAbove = 1000
	selected := func(r view.Row) bool {
		for n := 0; r != 0 && n < maxAbove; r, n = v.Parent(r), n+1 {
			if rows.Has(r) {
				return true
			}
		}
		return false
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
			if !known || !states.Is(r, n, w.Span) || !selected(r) {
				continue
			}
			c := &t.Classes[w.Class]
			p := place{state: c.State, via: c.Via}
			if own := c.Own(); own != nil {
				p.frame = *own
			}
			s := of(p)
			if w.To-w.From > s.most {
				s.Stack, s.Frame, s.Via = c.Stack, c.Own(), p.via
			}
			s.add(v, r, w.To-w.From)
			if by, known := states.Row(n, w.By); known && by != r { // another span ended the wait
				s.by[v.Name(by)] += w.To - w.From
			}
		}
		for i := range t.Spans {
			r, known := states.Row(n, int32(i))
			if !known || !states.Is(r, n, int32(i)) || !selected(r) {
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
