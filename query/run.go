package query

import (
	"cmp"
	"context"
	"fmt"
	"iter"
	"math"
	"slices"
	"time"

	"github.com/entrace-go/entrace/internal/read/columns"
	"github.com/entrace-go/entrace/view"
)

// A Result holds the rows that a query selects, or the table that it computes.
type Result struct {
	// Rows are the selected rows. If the query computes a table, it computes the table from them.
	Rows view.Set[view.Row]
	// Order has the rows of Rows in the order that the query requests, or is nil if the query does not sort.
	Order []view.Row
	// Table is the computed table, or nil if the query only selects rows.
	Table *Table
	// Selected has the column names of select(…).
	Selected []string
	// Hints explain parts of the query or the result that may surprise the user.
	Hints []Hint

	m      *machine
	values []eval // of Selected
}

// SelectedTable returns the values that select(…) requests, one line for each row. The lines are sorted as the query
// requests, or else by time. The table is nil if the query has no select(…).
func (r *Result) SelectedTable(ctx context.Context) (*Table, error) {
	if r.m == nil {
		return nil, nil //nolint:nilnil // a query without select(…) has no table
	}
	order := r.Order
	if order == nil {
		order = InTime(r.m.v, r.Rows)
	}
	t := &Table{Columns: r.Selected}
	e := &env{m: r.m, read: r.m.v.NewReader()}
	for i, row := range order {
		if i%4096 == 0 && ctx.Err() != nil {
			return nil, ctx.Err()
		}
		e.row = row
		line := make([]Value, len(r.values))
		for k, value := range r.values {
			line[k] = value(e)
		}
		t.Lines = append(t.Lines, line)
	}
	return t, nil
}

// A Table is the result of aggregates. It has one line for each group.
type Table struct {
	Columns []string
	Lines   [][]Value
	groups  int  // the number of columns that come from by(…)
	spans   bool // the table counts spans only
}

// Options change how [Query.Run] works.
type Options struct {
	// From and To restrict the result to rows whose time overlaps the period between From and To. A zero time sets no
	// limit.
	From, To time.Time
}

// Run runs the query on a view. A nil o means the defaults. The error is the error of ctx, or an [*Error].
func (q *Query) Run(ctx context.Context, v *view.View, o *Options) (*Result, error) {
	m := q.machine(ctx, v)
	r := &Result{Hints: slices.Clone(q.hints)}
	rows, err := m.set(q.root.set)
	if err != nil {
		return nil, err
	}
	from, to := o.Period()
	cut := from != math.MinInt64 || to != math.MaxInt64 // the result is restricted to a period
	if cut {
		rows, err = Overlapping(ctx, v, rows, from, to)
		if err != nil {
			return nil, err
		}
	}
	r.Rows, err = m.stages(q.root.stages, rows, r)
	if err != nil {
		return nil, err
	}
	r.Hints = append(append(r.Hints, q.lackHints(m, r.Rows)...), m.more...)
	if m.noStates != "" {
		r.Hints = append(r.Hints, Hint{Text: m.noStates})
	}
	if r.Rows.Len() == 0 && !cut {
		r.Hints = append(r.Hints, q.emptyHints(m)...)
	}
	return r, nil
}

// machine returns a machine that runs the query on a view.
func (q *Query) machine(ctx context.Context, v *view.View) *machine {
	return &machine{q: q, ctx: ctx, v: v, roles: selectedRoles(q.root), attrs: make(map[string]*attribute), lacks: make(map[string]lack)}
}

// selectedRoles returns the roles of the rows that a query can select, one bit for each. A query with a condition on the
// role can select all roles.
func selectedRoles(p *pipeline) uint64 {
	roles := uint64(1<<view.RoleSpan | 1<<view.RoleEvent | 1<<view.RoleLog | 1<<view.RoleOther)
	visitFilters(p, func(x expr) {
		if f, ok := x.(*field); ok && f.kind == kindRole {
			roles = ^uint64(1 << view.RoleFolded)
		}
	})
	return roles
}

// visitFilters calls fn for all expressions in the filters of a pipeline.
func visitFilters(p *pipeline, fn func(x expr)) {
	var inSet func(s spanset)
	inSet = func(s spanset) {
		switch s := s.(type) {
		case *filter:
			visit(s.x, fn)
		case *without:
			inSet(s.x)
		case *both:
			inSet(s.a)
			inSet(s.b)
		case *structural:
			inSet(s.a)
			inSet(s.b)
		case *nested:
			visitFilters(s.p, fn)
		}
	}
	inSet(p.set)
	for _, s := range p.stages {
		switch s := s.(type) {
		case *stageFilter:
			visit(s.x, fn)
		case *stageAggregate:
			if s.set != nil {
				inSet(s.set)
			}
		}
	}
}

// Words returns the free text that the query searches for, in lower case, without regular expressions. A selected row
// need not contain all of the words.
func (q *Query) Words() []string {
	var all []string
	visitFilters(q.root, func(x expr) {
		if w, ok := x.(*words); ok && w.fold != "" {
			all = append(all, w.fold)
		}
	})
	return all
}

// MakesTable reports whether the query computes a table instead of only selecting rows.
func (q *Query) MakesTable() bool { return countTables(q.root.stages) > 0 }

// selectable reports whether rows with these flags can be selected.
func (m *machine) selectable(f view.Flags) bool { return m.roles>>f.Role()&1 != 0 }

// where returns the rows of the set within for which an expression is true. If within is nil, it considers all rows.
func (m *machine) where(x expr, within view.Set[view.Row]) (view.Set[view.Row], error) {
	n, err := m.filter(x)
	if err != nil {
		return nil, err
	}
	return m.refine(n, within)
}

// refine returns the selectable rows of the set within, or of all rows if within is nil, for which a node is true.
func (m *machine) refine(n node, within view.Set[view.Row]) (view.Set[view.Row], error) {
	out := m.v.NewSet()
	err := m.v.Columns().Each(m.ctx, func() func(k int) {
		e := &env{m: m, read: m.v.NewReader()}
		return func(k int) {
			set := m.block(e, n, k, within)
			copy(out[k*words64:], set[:])
		}
	})
	return out, err
}

// block returns the rows of block k that a filter selects.
func (m *machine) block(e *env, n node, k int, within view.Set[view.Row]) blockBits {
	b := m.v.Columns().Block(k)
	var set blockBits
	roles := m.roles
	for w, rest := 0, b.Flags; len(rest) > 0; w++ {
		size := min(64, len(rest))
		word := uint64(0) // much faster than changing set for each row
		for i, f := range rest[:size] {
			bit := roles >> (view.Flags(f).Role() & 63) & 1
			word |= bit << (i & 63) // with & 63, a shift needs no check
		}
		set[w], rest = word, rest[size:]
	}
	if within != nil {
		for i := range set {
			set[i] &= within[k*words64+i]
		}
	}
	n.refine(e, k, &b, &set)
	return set
}

// First yields the rows that the query selects, in the order of their numbers, as soon as it finds them. If within is
// not nil, it considers only the rows of this set. First returns false if the query is not a single filter. It makes
// no columns of attributes, so it finds the first rows quickly, but needs longer than Run for all rows. A user
// interface can show these rows while Run is still running.
func (q *Query) First(ctx context.Context, v *view.View, within view.Set[view.Row]) (rows iter.Seq2[view.Row, error], ok bool) {
	f, ok := q.root.set.(*filter)
	if !ok || len(q.root.stages) > 0 {
		return nil, false
	}
	return func(yield func(view.Row, error) bool) {
		m := q.machine(ctx, v)
		m.few = true
		node, err := m.filter(f.x)
		e := &env{m: m, read: v.NewReader()}
		for k := 0; k < v.Columns().Blocks() && err == nil; k++ {
			err = ctx.Err()
			if err != nil || within != nil && within[k*words64:min(len(within), (k+1)*words64)].Len() == 0 {
				continue
			}
			set := m.block(e, node, k, within)
			for i := range view.Set[view.Row](set[:]).All() {
				if !yield(view.Row(k*columns.BlockRows)+i, nil) {
					return
				}
			}
		}
		if err != nil {
			yield(0, err)
		}
	}, true
}

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
	t := make(view.Set[uint32], m.v.Columns().Traces()/64+1)
	for r := range s.All() {
		t.Add(m.v.Columns().Trace(uint32(r)))
	}
	return t
}

// inTraces reports whether row r belongs to one of the traces. A row without a trace is a trace of its own. It
// belongs to the traces if it is in the set rows.
func (m *machine) inTraces(traces view.Set[uint32], rows view.Set[view.Row], r view.Row) bool {
	n := m.v.Columns().Trace(uint32(r))
	if n == 0 {
		return rows.Has(r)
	}
	return traces.Has(n)
}

// combine returns a && b or a || b. The result of && has the rows of a and of b, but only in traces in which both
// select a row.
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
	if v.Columns().ParentsFirst() {
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

// stages runs the stages on rows, and sets r.Table, r.Order and the selected columns. It returns the remaining rows.
func (m *machine) stages(list []stage, rows view.Set[view.Row], r *Result) (view.Set[view.Row], error) {
	var by []expr
	var err error
	for i, s := range list {
		switch s := s.(type) {
		case *stageFilter:
			rows, err = m.where(s.x, rows)
			r.keep(rows)
		case *stageBy:
			by = s.list
		case *stageCoalesce:
			by = nil
		case *stageSelect:
			for _, x := range s.list {
				value, err := m.value(x)
				if err != nil {
					return nil, err
				}
				r.Selected, r.values = append(r.Selected, x.String()), append(r.values, value)
			}
			r.m = m
		case *stageAggregate:
			if s.by != nil {
				by = s.by
			}
			if s.cond != nil {
				rows, err = m.having(s, by, rows)
				r.keep(rows)
				break
			}
			var calls []*stageAggregate
			for _, other := range list[:i+1] {
				if a, ok := other.(*stageAggregate); ok && a.cond == nil {
					calls = append(calls, a)
				}
			}
			if len(calls) < countTables(list) {
				continue // the last aggregate computes the table for all aggregates
			}
			r.Table, err = m.table(calls, by, rows)
		case *stageSort:
			err = m.sort(s.x, s.desc, rows, r)
		case *stageTop:
			err = m.sort(s.x, !s.bottom, rows, r)
			if err == nil {
				rows = r.cut(int(min(s.n, int64(m.v.Len()))), rows)
			}
		case *stageLimit:
			if r.Order == nil && r.Table == nil {
				r.Order = InTime(m.v, rows)
			}
			rows = r.cut(int(min(s.n, int64(m.v.Len()))), rows)
		}
		if err != nil {
			return nil, err
		}
	}
	return rows, nil
}

func countTables(list []stage) (n int) {
	for _, s := range list {
		if a, ok := s.(*stageAggregate); ok && a.cond == nil {
			n++
		}
	}
	return n
}

// keep removes from r.Order the rows that are not in the set rows.
func (r *Result) keep(rows view.Set[view.Row]) {
	if r.Order != nil && rows != nil {
		r.Order = slices.DeleteFunc(r.Order, func(row view.Row) bool { return !rows.Has(row) })
	}
}

// cut keeps the first n lines of the table or the first n rows.
func (r *Result) cut(n int, rows view.Set[view.Row]) view.Set[view.Row] {
	if r.Table != nil {
		r.Table.Lines = r.Table.Lines[:min(n, len(r.Table.Lines))]
		return rows
	}
	r.Order = r.Order[:min(n, len(r.Order))]
	kept := make(view.Set[view.Row], len(rows))
	for _, row := range r.Order {
		kept.Add(row)
	}
	return kept
}

// InTime returns rows sorted by time. A row without a time has the time of the row before it.
func InTime(v *view.View, rows view.Set[view.Row]) []view.Row {
	list := slices.Collect(rows.All())
	times := make(map[view.Row]int64)
	last := int64(0)
	for _, r := range list {
		if t, ok := v.Start(r); ok {
			last = t
		} else {
			times[r] = last
		}
	}
	at := func(r view.Row) int64 {
		if t, ok := v.Start(r); ok {
			return t
		}
		return times[r]
	}
	slices.SortStableFunc(list, func(a, b view.Row) int { return cmp.Compare(at(a), at(b)) })
	return list
}

// orderIn compares two values for an ascending or a descending order. Missing values come last in both orders.
func orderIn(desc bool, a, b Value) int {
	n := Compare(a, b)
	if desc && a.class() != math.MaxInt && b.class() != math.MaxInt {
		return -n
	}
	return n
}

// sort sorts the lines of the table, or the rows if there is no table, by an expression.
func (m *machine) sort(x expr, desc bool, rows view.Set[view.Row], r *Result) error {
	less := func(a, b Value) int { return orderIn(desc, a, b) }
	if r.Table != nil {
		at := len(r.Table.Columns) - 1
		if l, ok := x.(*literal); !ok || l.value.kind != kindNil {
			name := x.String()
			at = slices.IndexFunc(r.Table.Columns, func(c string) bool {
				return c == name || c == name+"()" || len(c) > len(name) && c[:len(name)+1] == name+"("
			})
			if at < 0 {
				return &Error{Text: "the table has no column " + name, Hint: "its columns are " + fmt.Sprint(r.Table.Columns)}
			}
		}
		slices.SortStableFunc(r.Table.Lines, func(a, b []Value) int { return less(a[at], b[at]) })
		return nil
	}
	value, err := m.value(x)
	if err != nil {
		return err
	}
	e := &env{m: m, read: m.v.NewReader()}
	list := InTime(m.v, rows)
	keys := make(map[view.Row]Value, len(list))
	for _, row := range list {
		e.row = row
		keys[row] = value(e)
	}
	slices.SortStableFunc(list, func(a, b view.Row) int { return less(keys[a], keys[b]) })
	r.Order = list
	return nil
}

// A Run is a view and the set of its rows to compare.
type Run struct {
	View *view.View
	Rows view.Set[view.Row]
}
