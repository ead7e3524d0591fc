package analyze

import (
	"cmp"
	"context"
	"slices"

	"github.com/entrace-go/entrace/internal/read/gotrace"
	"github.com/entrace-go/entrace/internal/read/interest"
	"github.com/entrace-go/entrace/internal/read/spanstates"
	"github.com/entrace-go/entrace/view"
)

// A MeasuredPath describes what the goroutine of a span did at each moment. If it waited for another goroutine,
// the path describes what that goroutine did. Unlike a [CriticalPath], it is not inferred: Go's execution trace in
// the file records which goroutine ended a wait.
type MeasuredPath struct {
	Span     view.Row        `json:"span"`
	Inferred bool            `json:"inferred"` // false
	Join     spanstates.Join `json:"join"`     // how the span was found in the execution trace
	// Goroutine is the number of the goroutine on which the span began.
	Goroutine int64   `json:"goroutine"`
	Open      bool    `json:"open"`  // the span had not ended when the trace ended
	Known     float64 `json:"known"` // the share of the time that the steps explain, from 0 to 1
	From      int64   `json:"from_unix_nano"`
	Duration  int64   `json:"duration_nano"`
	// Steps are in chronological order.
	Steps []MeasuredStep `json:"steps"`

	// Own is how long the goroutine of the span was in each state, and Sums how long the goroutines of the steps were,
	// the longest first.
	Own  []StateTime `json:"-"`
	Sums []StateTime `json:"-"`
}

// A MeasuredStep is a period in which a goroutine was in one state. If the step is a wait for another goroutine,
// it can be followed: the next steps, with a larger depth, then say what that goroutine did.
type MeasuredStep struct {
	From      int64    `json:"from_unix_nano"`
	Duration  int64    `json:"duration_nano"` // in [MeasuredPath.Lines], the total time of the joined steps
	Depth     int      `json:"depth"`
	Followed  bool     `json:"followed"` // the steps after this one explain it
	State     string   `json:"state"`
	Goroutine int64    `json:"goroutine"`
	Span      view.Row `json:"span" null:"yes"`        // the span for which the goroutine worked
	Stack     []Frame  `json:"stack"`                  // of a wait, the innermost first; empty if the stack is not known
	EndedBy   *Waker   `json:"ended_by"`               // nil for a timer or the network, and if the wait has not ended
	Frame     *Frame   `json:"frame,omitzero"`         // the frame of Stack that is in the program itself
	Via       string   `json:"via,omitzero"`           // the library function that waited and that Frame called
	Times     int      `json:"times,omitzero"`         // in [MeasuredPath.Lines], the number of similar steps
	Request   string   `json:"other_request,omitzero"` // in [MeasuredPath.Lines], the request of Span, if it is not the request of the path

	end int64 // the end of the time that Duration includes
}

// To is the end of the step.
func (s *MeasuredStep) To() int64 { return s.From + s.Duration }

// A Waker is the goroutine that ended a wait.
type Waker struct {
	Goroutine int64    `json:"goroutine"`
	Span      view.Row `json:"span" null:"yes"`
	Frame     *Frame   `json:"frame"`
	Request   string   `json:"other_request,omitzero"`
}

// A Frame is a function and a line in it. It must not be changed.
type Frame = gotrace.Frame

// MeasuredShare is the share of a span's time that must be known before a path is printed as measured.
const MeasuredShare = .95

// Measured returns the measured path of the span at row r. It returns nil if no execution trace has the span.
func Measured(ctx context.Context, v *view.View, r view.Row) (*MeasuredPath, error) {
	states, err := spanstates.Of(ctx, v)
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
	whole := max(to-from, int64(took)) // the trace may begin after the span, or end before it
	p := &MeasuredPath{Span: r, From: start, Duration: whole, Open: s.End == 0 && !ended, Join: s.Join, Goroutine: s.Goroutine, Own: longestOf(s.Times)}
	late := start - from
	if s.Begin == 0 {
		late = start + whole - to
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
		c := class(x.Class)
		y := MeasuredStep{
			From: x.From + late, Duration: x.To - x.From, Depth: x.Depth, Followed: x.Followed, State: x.State.String(), Goroutine: x.Goroutine,
			Span: spanAt(x.Goroutine, x.From+(x.To-x.From)/2), Stack: c.Stack, Frame: c.Own(), Via: c.Via,
		}
		if x.By >= 0 {
			y.EndedBy = &Waker{Goroutine: x.By, Span: spanAt(x.By, x.To), Frame: class(x.ByClass).Own()}
		}
		if n := len(p.Steps); n > 0 && p.Steps[n-1].continues(&y) {
			p.Steps[n-1].Duration += y.Duration
			continue
		}
		p.Steps = append(p.Steps, y)
	}
	p.Sums = byTime(w.Sums(pieces))
	return p, nil
}

// continues reports whether the step next continues s in the same state, so that the two are one step.
func (s *MeasuredStep) continues(next *MeasuredStep) bool {
	return !s.Followed && !next.Followed && s.Stack == nil && next.Stack == nil && s.State == next.State && s.Goroutine == next.Goroutine &&
		s.Span == next.Span && s.Depth == next.Depth && s.To() == next.From
}

// Lines returns the steps that take at least the share least of the whole time, as lines for people. It also
// returns the number and the total time of shorter steps. Similar steps, such as waits for the same queue, are one
// line.
func (p *MeasuredPath) Lines(v *view.View, least float64) (lines []MeasuredStep, shorter int, took int64) {
	for i := range p.Steps {
		s := &p.Steps[i]
		if float64(s.Duration) < least*float64(p.Duration) {
			if !s.Followed {
				shorter++
				took += s.Duration
			}
			continue
		}
		if n := len(lines); n > 0 && lines[n-1].alike(v, s) {
			l := &lines[n-1]
			l.Times++
			if !s.Followed || s.From >= l.end {
				l.Duration, l.end = l.Duration+s.Duration, s.To()
			}
			continue
		}
		lines = append(lines, *s)
		lines[len(lines)-1].Times, lines[len(lines)-1].end = 1, s.To()
	}
	ranker := interest.NewRanker(v)
	for i := range lines {
		if lines[i].Times == 1 {
			lines[i].tellRequests(ranker, p.Span)
		}
	}
	return lines, shorter, took
}

// tellRequests sets the Request of the step and of its Waker, if they belong to other requests than the span own.
func (s *MeasuredStep) tellRequests(ranker *interest.Ranker, own view.Row) {
	if s.Span != 0 {
		s.Request = ranker.Request(s.Span, own)
	}
	if s.EndedBy != nil && s.EndedBy.Span != 0 {
		by := *s.EndedBy
		by.Request = ranker.Request(by.Span, own)
		s.EndedBy = &by
	}
}

func (s *MeasuredStep) alike(v *view.View, b *MeasuredStep) bool {
	same := func(a, b *Frame) bool { return a == b || a != nil && b != nil && *a == *b }
	name := func(r view.Row) string {
		if r == 0 {
			return ""
		}
		return v.Name(r)
	}
	x, y := cmp.Or(s.EndedBy, new(Waker)), cmp.Or(b.EndedBy, new(Waker))
	return s.Followed == b.Followed && s.State == b.State && same(s.Frame, b.Frame) && s.Via == b.Via && name(s.Span) == name(b.Span) && (s.Span != 0 || s.Goroutine == b.Goroutine) &&
		name(x.Span) == name(y.Span) && same(x.Frame, y.Frame)
}

// Longest returns the longest waits of the span's own goroutine, at most n.
func (p *MeasuredPath) Longest(v *view.View, n int) []MeasuredStep {
	var list []MeasuredStep
	for i := range p.Steps {
		if s := &p.Steps[i]; s.Depth == 0 && s.Stack != nil {
			list = append(list, *s)
		}
	}
	slices.SortStableFunc(list, func(a, b MeasuredStep) int { return cmp.Compare(b.Duration, a.Duration) })
	list = list[:min(len(list), n)]
	ranker := interest.NewRanker(v)
	for i := range list {
		list[i].tellRequests(ranker, p.Span)
	}
	return list
}

// Critical returns the path as a critical path, without the followed waits and without the goroutines that ended
// waits.
func (p *MeasuredPath) Critical() *CriticalPath {
	c := &CriticalPath{Span: p.Span, Open: p.Open, From: p.From, Duration: p.Duration}
	for i := range p.Steps {
		x := &p.Steps[i]
		if x.Followed {
			continue
		}
		if n := len(c.Steps); n > 0 {
			if last := &c.Steps[n-1]; last.Span == x.Span && last.State == x.State && last.Goroutine == x.Goroutine && last.To() == x.From {
				last.Duration += x.Duration
				continue
			}
		}
		c.Steps = append(c.Steps, Step{From: x.From, Duration: x.Duration, Depth: x.Depth, Span: x.Span, State: x.State, Goroutine: x.Goroutine})
	}
	return c
}
