package viewer

import (
	"context"
	"slices"
	"time"

	"github.com/entrace-go/entrace/internal/analyze"
	"github.com/entrace-go/entrace/view"
)

const (
	maxBelow    = 500_000          // a path is computed only for a span with at most this number of rows below it
	maxMeasured = 10 * time.Second // a path of a longer span is not measured; measuring costs some 80 ms per second
	maxCritical = 20_000           // the maximum number of steps in an answer; the longest steps are kept
	maxSteps    = 40               // the maximum number of joined steps in an answer
)

// A pathAnswer is the critical path of the outermost span above a row. The page shows its Steps as a list. In this
// list, steps of the same name, service and state are joined at the position of the first one. Steps without a span are
// joined only if their goroutine is the same.
type pathAnswer struct {
	*analyze.CriticalPath

	// Marks describes the steps before they are joined, by three numbers per step: the row, the time since the
	// beginning of the path, and the duration.
	Marks []int64 `json:"marks"`
	Rest  int     `json:"rest"` // the number of joined steps that are omitted
}

// pathOf returns the critical path of a span, or nil if the span has none. The path is measured if Go's
// execution trace covers nearly all of the span's time, and the span took at most maxMeasured.
func (s *state) pathOf(ctx context.Context, whole view.Row) (*analyze.CriticalPath, error) {
	took, ended := s.v.Duration(whole)
	if s.v.HasStates() && ended && took <= maxMeasured {
		m, err := analyze.Measured(ctx, s.v, whole)
		if err != nil {
			return nil, err
		}
		if m != nil && m.Known >= analyze.MeasuredShare {
			return m.Critical(), nil
		}
	}
	p, ok := analyze.Critical(s.v, whole)
	if !ok || p.Duration == 0 {
		return nil, nil
	}
	return p, nil
}

// critical answers with the critical path of the outermost span above a row.
func (q *request) critical(ctx context.Context) (any, error) {
	r := q.row("row")
	if q.err != nil {
		return nil, q.err
	}
	for r != 0 && q.v.Role(r) != view.RoleSpan {
		r = q.v.Parent(r)
	}
	out, err := q.pathAnswer(ctx, q.v.Outermost(r), func(r view.Row) rowNumber { return rowNumber(r) })
	if err != nil || out == nil {
		return nil, err
	}
	return q.encoded(ctx, out, nil)
}

func durationOf(x *analyze.Step) int64 { return x.Duration }

// pathAnswer returns the critical path of a span. The func number returns the row number that the answer contains
// for a row. If nothing is known about the path, the answer has no steps.
func (s *state) pathAnswer(ctx context.Context, whole view.Row, number func(view.Row) rowNumber) (*pathAnswer, error) {
	if whole == 0 {
		return nil, nil
	}
	out := &pathAnswer{CriticalPath: &analyze.CriticalPath{Span: whole}}
	if s.below(whole) > maxBelow {
		return out, nil // the command 'entrace critical' can compute the path of such a large span
	}
	p, err := s.pathOf(ctx, whole)
	if err != nil || p == nil {
		return out, err
	}
	out.CriticalPath = p
	isLong := largest(p.Steps, maxCritical, durationOf)
	type kind struct {
		name, service, state string
		goroutine            int64
	}
	joined, counted := make(map[kind]int), make(map[view.Row]bool)
	all := p.Steps
	p.Steps, p.Async = []analyze.Step{}, nil
	for i := range all {
		x := &all[i]
		if isLong(x.Duration) {
			out.Marks = append(out.Marks, int64(number(x.Span)), x.From-p.From, x.Duration)
		}
		if p.Open { // in an open span, it is not known which span below it ends last
			continue
		}
		k := kind{name: s.v.Name(x.Span), service: s.v.Service(x.Span), state: x.State}
		if x.Span == 0 {
			k.goroutine = x.Goroutine
		}
		at, known := joined[k]
		if !known {
			at, joined[k] = len(p.Steps), len(p.Steps)
			x.Beside = nil
			p.Steps = append(p.Steps, *x)
			p.Steps[at].Duration = 0
		}
		p.Steps[at].Duration += x.Duration
		if !counted[x.Span] {
			p.Steps[at].Count++
		}
		counted[x.Span] = true
	}
	n := len(p.Steps)
	p.Steps = slices.DeleteFunc(p.Steps, func(x analyze.Step) bool { return x.Duration < max(1, p.Duration/100) })
	isLong = largest(p.Steps, maxSteps, durationOf)
	p.Steps = slices.DeleteFunc(p.Steps, func(x analyze.Step) bool { return !isLong(x.Duration) })
	out.Rest = n - len(p.Steps)
	return out, nil
}
