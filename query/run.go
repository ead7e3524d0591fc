package query

import (
	"context"
	"iter"
	"math"
	"slices"
	"time"

	"github.com/entrace-go/entrace/internal/read/columns"
	"github.com/entrace-go/entrace/view"
)

// A Result holds the rows that a query selects, or the table that it computes.
type Result struct {
	// Rows are the selected rows. If the query computes a table, it computes the table from these rows.
	Rows view.Set[view.Row]
	// Order has the rows of Rows in the order that the query requests. It is nil if the query does not sort.
	Order []view.Row
	// Table is the computed table, or nil if the query only selects rows.
	Table *Table
	// Selected has the column names of select(…).
	Selected []string
	// Hints explain parts of the query or the result that may surprise the user.
	Hints []Hint

	m      *machine
	values []eval // for each item of Selected
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

// Options change how [Query.Run] works.
type Options struct {
	// From and To restrict the result to rows whose time overlaps the period between From and To. A zero time sets no
	// limit.
	From, To time.Time
	// Within restricts the result to these rows, unless it is nil.
	Within view.Set[view.Row]
}

// Period returns the times of o, in nanoseconds since 1970. The period of a nil o is unlimited.
func (o *Options) Period() (from, to int64) {
	from, to = math.MinInt64, math.MaxInt64
	if o != nil && !o.From.IsZero() {
		from = o.From.UnixNano()
	}
	if o != nil && !o.To.IsZero() {
		to = o.To.UnixNano()
	}
	return from, to
}

// Run runs the query on a view. A nil o means the defaults. The error is the error of ctx, or an [*Error].
func (q *Query) Run(ctx context.Context, v *view.View, o *Options) (*Result, error) {
	m := q.machine(ctx, v)
	r := &Result{Hints: slices.Clone(q.hints)}
	rows, err := m.set(q.root.set)
	if err != nil {
		return nil, err
	}
	rows, err = o.restrict(ctx, v, rows)
	if err != nil {
		return nil, err
	}
	r.Rows, err = m.stages(q.root.stages, rows, r)
	if err != nil {
		return nil, err
	}
	r.Hints = append(append(r.Hints, q.lackHints(m, r.Rows)...), m.more...)
	if m.noStates != "" {
		r.Hints = append(r.Hints, Hint{Text: m.noStates})
	}
	if r.Rows.Len() == 0 && !o.restricts() {
		r.Hints = append(r.Hints, q.emptyHints(m)...)
	}
	return r, nil
}

// restricts reports whether o restricts the result. It may be nil.
func (o *Options) restricts() bool {
	return o != nil && (!o.From.IsZero() || !o.To.IsZero() || o.Within != nil)
}

// restrict removes the rows that o does not allow. o may be nil.
func (o *Options) restrict(ctx context.Context, v *view.View, rows view.Set[view.Row]) (view.Set[view.Row], error) {
	if !o.restricts() {
		return rows, nil
	}
	if o.Within != nil {
		for i := range rows {
			rows[i] &= o.Within[i]
		}
	}
	if o.From.IsZero() && o.To.IsZero() {
		return rows, nil
	}
	from, to := o.Period()
	return Overlapping(ctx, v, rows, from, to)
}

// machine returns a machine that runs the query on a view.
func (q *Query) machine(ctx context.Context, v *view.View) *machine {
	return &machine{q: q, ctx: ctx, v: v, columns: columns.Of(v), roles: selectedRoles(q.root), attrs: make(map[string]*attribute), lacks: make(map[string]lack)}
}

// selectedRoles returns the roles of the rows that a query can select, one bit for each role. A query with a
// condition on the role can select all roles.
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
	inFilters(p, func(x expr) { visit(x, fn) })
}

// inFilters calls fn for the expression of each filter of a pipeline. The expression of {} is nil.
func inFilters(p *pipeline, fn func(x expr)) {
	var inSet func(s spanset)
	inSet = func(s spanset) {
		switch s := s.(type) {
		case *filter:
			fn(s.x)
		case *without:
			inSet(s.x)
		case *both:
			inSet(s.a)
			inSet(s.b)
		case *structural:
			inSet(s.a)
			inSet(s.b)
		case *nested:
			inFilters(s.p, fn)
		}
	}
	inSet(p.set)
	for _, s := range p.stages {
		switch s := s.(type) {
		case *stageFilter:
			fn(s.x)
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
	err := m.columns.Each(m.ctx, func() func(k int) {
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
	b := m.columns.Block(k)
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
// no columns of attributes, so it finds the first rows quickly, but takes longer than Run to find all rows. A user
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
		for k := 0; k < m.columns.Blocks() && err == nil; k++ {
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

// stages runs the stages on rows, and sets r.Table, r.Order and the selected columns. It returns the remaining rows.
func (m *machine) stages(list []stage, rows view.Set[view.Row], r *Result) (view.Set[view.Row], error) {
	var by []expr
	var err error
	for i, s := range list {
		switch s := s.(type) {
		case *stageFilter:
			rows, err = m.where(s.x, rows)
			r.filterOrder(rows)
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
				r.filterOrder(rows)
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

// filterOrder removes from r.Order the rows that are not in the set rows.
func (r *Result) filterOrder(rows view.Set[view.Row]) {
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

// A Run is a view and the set of its rows to compare.
type Run struct {
	View *view.View
	Rows view.Set[view.Row]
}
