package query

import (
	"github.com/entrace-go/entrace/internal/read/columns"
	"github.com/entrace-go/entrace/view"
)

// set returns the rows that a spanset selects.
func (m *machine) set(s spanset) (view.Set[view.Row], error) {
	switch s := s.(type) {
	case *filter:
		return m.where(s.x, nil)
	case *nested:
		rows, err := m.set(s.p.set)
		if err != nil {
			return nil, err
		}
		return m.stages(s.p.stages, rows, new(Result))
	case *without:
		has, err := m.set(s.x)
		if err != nil {
			return nil, err
		}
		traces := m.tracesOf(has)
		return m.refine(&rows{is: func(e *env) bool { return !m.inTraces(traces, has, e.row) }}, nil)
	case *both:
		return m.combine(s)
	case *structural:
		return m.structure(s)
	}
	return m.v.NewSet(), nil
}

// tracesOf returns the traces of the rows in s.
func (m *machine) tracesOf(s view.Set[view.Row]) view.Set[uint32] {
	t := make(view.Set[uint32], m.columns.Traces()/64+1)
	for r := range s.All() {
		t.Add(m.columns.Trace(uint32(r)))
	}
	return t
}

// inTraces reports whether row r belongs to one of the traces. A row without a trace is a trace of its own. Such a
// row belongs to the traces if it is in the set rows.
func (m *machine) inTraces(traces view.Set[uint32], rows view.Set[view.Row], r view.Row) bool {
	n := m.columns.Trace(uint32(r))
	if n == 0 {
		return rows.Has(r)
	}
	return traces.Has(n)
}

// combine returns a && b or a || b. The result of && has the rows of a and of b, but only in traces in which both a
// and b select a row.
func (m *machine) combine(s *both) (view.Set[view.Row], error) {
	a, err := m.set(s.a)
	if err != nil {
		return nil, err
	}
	b, err := m.set(s.b)
	if err != nil {
		return nil, err
	}
	out := m.v.NewSet()
	if s.op == "||" {
		for i := range out {
			out[i] = a[i] | b[i]
		}
		return out, nil
	}
	ta, tb := m.tracesOf(a), m.tracesOf(b)
	for r := range a.All() {
		if m.inTraces(tb, b, r) {
			out.Add(r)
		}
	}
	for r := range b.All() {
		if m.inTraces(ta, a, r) {
			out.Add(r)
		}
	}
	return out, nil
}

// structure returns the rows of b that are related to a row of a as the operator requires.
func (m *machine) structure(s *structural) (view.Set[view.Row], error) {
	a, err := m.set(s.a)
	if err != nil {
		return nil, err
	}
	b, err := m.set(s.b)
	if err != nil {
		return nil, err
	}
	found := m.related(s.op, a, b)
	switch {
	case s.negate:
		for i := range found {
			found[i] = b[i] &^ found[i]
		}
	case s.union:
		// Also add the rows of a that are related to a row of b. The inverse operator finds them.
		other := map[string]string{">>": "<<", "<<": ">>", ">": "<", "<": ">", "~": "~"}[s.op]
		back := m.related(other, b, a)
		for i := range found {
			found[i] |= back[i]
		}
	}
	return found, m.ctx.Err()
}

// related returns the rows of b that have a row of a as an ancestor (>>), parent (>), descendant
// (<<), child (<) or sibling (~).
func (m *machine) related(op string, a, b view.Set[view.Row]) view.Set[view.Row] {
	v := m.v
	out := v.NewSet()
	switch op {
	case ">":
		for r := range b.All() {
			if a.Has(v.Parent(r)) && r != 0 {
				out.Add(r)
			}
		}
	case "<":
		for r := range a.All() {
			if up := v.Parent(r); b.Has(up) && r != 0 {
				out.Add(up)
			}
		}
	case ">>":
		m.below(a, b, out)
	case "<<":
		m.above(a, b, out)
	case "~":
		// For each parent, determine whether a has none, one or several of its children.
		one, more := v.NewSet(), v.NewSet()
		for r := range a.All() {
			if up := v.Parent(r); one.Has(up) {
				more.Add(up)
			} else {
				one.Add(up)
			}
		}
		for r := range b.All() {
			up := v.Parent(r)
			if v.Role(up) == view.RoleSpan && (more.Has(up) || one.Has(up) && !a.Has(r)) {
				out.Add(r)
			}
		}
	}
	return out
}

// below adds to out the rows of b that are below a row of a.
func (m *machine) below(a, b, out view.Set[view.Row]) {
	v := m.v
	under := v.NewSet() // all rows below a row of a
	visit := func(r view.Row) {
		if up := v.Parent(r); r != 0 && (a.Has(up) || under.Has(up)) {
			under.Add(r)
			if b.Has(r) {
				out.Add(r)
			}
		}
	}
	if columns.Of(v).ParentsFirst() {
		for r := range v.Rows() {
			visit(r)
		}
		return
	}
	t := v.Tree()
	for rank := range t.Len() {
		visit(t.Row(rank))
	}
}

// above adds to out the rows of b that are above a row of a.
func (m *machine) above(a, b, out view.Set[view.Row]) {
	over := m.v.NewSet()
	for r := range a.All() {
		for r != 0 {
			r = m.v.Parent(r)
			if over.Has(r) {
				break
			}
			over.Add(r)
			if b.Has(r) {
				out.Add(r)
			}
		}
	}
}
