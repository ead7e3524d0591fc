package viewer

import (
	"cmp"
	"context"
	"net/url"
	"slices"
	"time"

	"github.com/entrace-go/entrace/query/analyze"
	"github.com/entrace-go/entrace/view"
)

const (
	maxBelow    = 500_000          // rows below a span of which the path is found
	maxMeasured = 10 * time.Second // the length of a path that is measured: each second takes some 80 ms
	maxCritical = 20_000           // steps in an answer; the longest are kept
	maxSteps    = 40               // names in an answer
)

// A pathAnswer is the critical path of the outermost span above a row. Its steps are those that a person reads: all of one
// name are one, where the first is.
type pathAnswer struct {
	*analyze.CriticalPath

	// Marks has all steps, without their spans' names: the row, the time since the beginning and the duration of each.
	Marks []int64 `json:"marks"`
	Rest  int     `json:"rest"` // steps that are left out
}

// pathOf returns the critical path of a span; nil if it has none. Where Go's
// execution trace tells of nearly all of its time the path is measured.
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
func (h *Handler) critical(ctx context.Context, s *state, q url.Values) (any, error) {
	r, err := s.rowOf(q, "row")
	if err != nil {
		return nil, err
	}
	for r != 0 && s.v.Role(r) != view.RoleSpan {
		r = s.v.Parent(r)
	}
	out, err := s.pathAnswer(ctx, s.v.Outermost(r), func(r view.Row) rowNumber { return rowNumber(r) })
	if err != nil || out == nil {
		return nil, err
	}
	return s.encoded(ctx, out, nil)
}

// pathAnswer returns the critical path of a span, with the numbers of rows that number returns. It has no steps if nothing is known.
func (s *state) pathAnswer(ctx context.Context, whole view.Row, number func(view.Row) rowNumber) (*pathAnswer, error) {
	if whole == 0 {
		return nil, nil
	}
	out := &pathAnswer{CriticalPath: &analyze.CriticalPath{Span: whole}}
	if s.below(whole) > maxBelow {
		return out, nil // 'entrace critical' prints it
	}
	p, err := s.pathOf(ctx, whole)
	if err != nil || p == nil {
		return out, err
	}
	out.CriticalPath = p
	least := int64(0)
	if n := len(p.Steps) - maxCritical; n > 0 {
		least = slices.SortedFunc(slices.Values(p.Steps), func(a, b analyze.Step) int { return cmp.Compare(a.Duration, b.Duration) })[n].Duration
	}
	type kind struct{ name, service, state string }
	joined, counted := make(map[kind]int), make(map[view.Row]bool)
	all := p.Steps
	p.Steps, p.Async = []analyze.Step{}, nil
	for i := range all {
		x := &all[i]
		if x.Duration >= least {
			out.Marks = append(out.Marks, int64(number(x.Span)), x.From-p.From, x.Duration)
		}
		if p.Open { // of what hangs nobody knows which span ends last
			continue
		}
		k := kind{s.v.Name(x.Span), s.v.Service(x.Span), x.State}
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
	p.Steps = p.Steps[:min(len(p.Steps), maxSteps)]
	out.Rest = n - len(p.Steps)
	return out, nil
}
