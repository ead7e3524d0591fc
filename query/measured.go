package query

import (
	"cmp"
	"context"
	"slices"

	"github.com/entrace-go/entrace/internal/read/gotrace"
	"github.com/entrace-go/entrace/view"
)

// A MeasuredPath says for each moment of a span what its goroutine did, and where it waited for another
// goroutine, what that one did. Unlike a [CriticalPath] it is not inferred: Go's execution trace in the file tells
// who ended a wait.
type MeasuredPath struct {
	Span     view.Row
	From, To int64
	// Open reports that the span had not ended when the trace ended.
	Open bool
	// Known is the share of the time that the steps explain, from 0 to 1.
	Known float64
	// Join says how the span was found in the execution trace.
	Join view.Join
	// Own says how long the goroutine of the span was in which state, the longest first.
	Own []StateTime
	// Sums says the same of the goroutines in the steps.
	Sums []StateTime
	// Steps are in the order of time.
	Steps []MeasuredStep
}

// A MeasuredStep is a period in which a goroutine was in one state, or a wait whose time the steps behind it
// explain, which have a larger depth.
type MeasuredStep struct {
	From, To  int64
	Depth     int
	Followed  bool // the steps behind it explain it
	State     string
	Goroutine int64
	Span      view.Row // the span for which the goroutine worked, or 0
	Stack     []Frame  // of a wait, the innermost first; nil if it is not known
	Frame     *Frame   // the one in Stack that is of the program itself
	Via       string   // the function of a library that waited and that Frame has called, or ""
	By        Waker    // who ended the wait
}

// A Waker is who ended a wait.
type Waker struct {
	Goroutine int64    // -1 for a timer or the network, and as long as nobody ended it
	Span      view.Row // or 0
	Frame     *Frame
}

// A Frame is a function and a line in it. It must not be changed.
type Frame = gotrace.Frame

// MeasuredShare is the least share of a span's time that must be known for its path to be printed as
// measured.
const MeasuredShare = .95

// Measured returns the measured path of the span at row r. It returns nil if no execution trace has the span.
func Measured(ctx context.Context, v *view.View, r view.Row) (*MeasuredPath, error) {
	states, err := v.States(ctx)
	if err != nil {
		return nil, err
	}
	s, ok := states.Of(r)
	start, timed := v.Start(r)
	if !ok || !timed {
		return nil, nil
	}
	t := states.Traces()[s.Trace]
	legs := t.Legs(s.Span)
	from, to := legs[0].From, legs[len(legs)-1].To
	w, err := t.Window(ctx, from, to)
	if err != nil {
		return nil, err
	}
	took, ended := v.Duration(r)
	whole := max(to-from, int64(took)) // the trace may begin later than the span, or end earlier
	p := &MeasuredPath{Span: r, From: start, To: start + whole, Open: s.End == 0 && !ended, Join: s.Join, Own: longestOf(s.Times)}
	late := start - from
	if s.Begin == 0 {
		late = p.To - to
	}
	spanAt := func(goroutine, at int64) view.Row {
		row, _ := states.Row(s.Trace, t.SpanAt(goroutine, at))
		return row
	}
	class := func(i int32) *gotrace.Class {
		if i < 0 {
			return new(gotrace.Class)
		}
		return &w.Classes[i]
	}
	steps := w.Path(legs)
	if whole > 0 {
		p.Known = float64(gotrace.Known(steps)) / float64(whole)
	}
	var pieces []gotrace.Piece
	for i := range steps {
		x := &steps[i]
		if !x.Followed {
			pieces = append(pieces, x.Piece)
		}
		y := MeasuredStep{
			From: x.From + late, To: x.To + late, Depth: x.Depth, Followed: x.Followed, State: x.State.String(), Goroutine: x.Goroutine,
			Span: spanAt(x.Goroutine, x.From+(x.To-x.From)/2), By: Waker{Goroutine: x.By},
		}
		y.Stack, y.Frame, y.Via = class(x.Class).Stack, class(x.Class).Own(), class(x.Class).Via
		if x.By >= 0 {
			y.By.Span = spanAt(x.By, x.To)
			y.By.Frame = class(x.ByClass).Own()
		}
		if n := len(p.Steps); n > 0 && p.Steps[n-1].continues(&y) {
			p.Steps[n-1].To = y.To
			continue
		}
		p.Steps = append(p.Steps, y)
	}
	p.Sums = byTime(w.Sums(pieces))
	return p, nil
}

// continues reports whether two steps are one: a goroutine runs on.
func (s *MeasuredStep) continues(next *MeasuredStep) bool {
	return !s.Followed && !next.Followed && s.Stack == nil && next.Stack == nil && s.State == next.State && s.Goroutine == next.Goroutine &&
		s.Span == next.Span && s.Depth == next.Depth && s.To == next.From
}

// A MeasuredLine stands for one or several steps that look the same, as those of a queue do.
type MeasuredLine struct {
	*MeasuredStep // the first

	Took  int64 // of all, without those that are parts of others
	Times int
	end   int64 // of what counts in Took
}

// Lines returns the steps that take at least a share of the whole, as a person reads them, and how many are
// shorter, and how long these take.
func (p *MeasuredPath) Lines(v *view.View, least float64) (lines []MeasuredLine, shorter int, took int64) {
	for i := range p.Steps {
		s := &p.Steps[i]
		d := s.To - s.From
		if float64(d) < least*float64(p.To-p.From) {
			if !s.Followed {
				shorter++
				took += d
			}
			continue
		}
		if n := len(lines); n > 0 && lines[n-1].alike(v, s) {
			l := &lines[n-1]
			if l.Times++; !s.Followed || s.From >= l.end {
				l.Took, l.end = l.Took+d, s.To
			}
			continue
		}
		lines = append(lines, MeasuredLine{s, d, 1, s.To})
	}
	return lines, shorter, took
}

func (s *MeasuredStep) alike(v *view.View, b *MeasuredStep) bool {
	same := func(a, b *Frame) bool { return a == b || a != nil && b != nil && *a == *b }
	name := func(r view.Row) string {
		if r == 0 {
			return ""
		}
		return v.Name(r)
	}
	return s.Followed == b.Followed && s.State == b.State && same(s.Frame, b.Frame) && s.Via == b.Via && name(s.Span) == name(b.Span) && (s.Span != 0 || s.Goroutine == b.Goroutine) &&
		name(s.By.Span) == name(b.By.Span) && same(s.By.Frame, b.By.Frame)
}

// Longest returns the longest waits of the span's own goroutine, n at most.
func (p *MeasuredPath) Longest(n int) []*MeasuredStep {
	var list []*MeasuredStep
	for i := range p.Steps {
		if s := &p.Steps[i]; s.Depth == 0 && s.Stack != nil {
			list = append(list, s)
		}
	}
	slices.SortStableFunc(list, func(a, b *MeasuredStep) int { return cmp.Compare(b.To-b.From, a.To-a.From) })
	return list[:min(len(list), n)]
}
