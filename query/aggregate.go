package query

import (
	"cmp"
	endian "encoding/binary"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/entrace-go/entrace/view"
)

// table computes aggregates of rows. The table has one line for each group. Rows are in one group if all
// expressions in by have equal values.
func (m *machine) table(calls []*stageAggregate, by []expr, rows view.Set[view.Row]) (*Table, error) {
	for _, c := range calls {
		switch alone := len(calls) == 1; {
		case !alone && functions[c.fn].table:
			return nil, &Error{Pos: c.pos, Text: c.fn + "() cannot be combined with other functions"}
		case c.fn == "compare":
			return m.compareSets(c, rows)
		case c.fn == "values":
			return m.valuesOf(c, by, rows)
		}
	}
	var keep []keeps
	at := make([]int, len(calls)) // for each call, the index in keep of its accumulator
	known := make(map[string]int)
	last := "" // the expression of the last item of keep that has an expression
	for i, c := range calls {
		k := keeps{fn: c.fn, args: c.args}
		if len(c.args) > 0 {
			k.fn = "quantile" // all quantiles of an expression share one accumulator
		}
		id := k.fn
		if c.x != nil {
			id += " " + c.x.String()
			var err error
			k.value, err = m.value(c.x)
			if err != nil {
				return nil, err
			}
			if f, ok := c.x.(*field); ok && !f.parent {
				k.duration, k.took = f.took != nil && f.number != nil, f.took
			}
		}
		n, ok := known[id]
		if !ok {
			n = len(keep)
			known[id] = n
			if c.x != nil {
				k.same = k.took != nil && last == c.x.String()
				last = c.x.String()
			}
			keep = append(keep, k)
		} else {
			keep[n].args = slices.Concat(keep[n].args, k.args)
		}
		at[i] = n
	}
	g, err := m.group(keep, by, rows, maxGroups)
	if err != nil {
		return nil, err
	}
	if len(g.keys) > maxGroups {
		return nil, &Error{Text: fmt.Sprintf("by(%s) makes more than %d groups", list(by), maxGroups), Hint: "select fewer rows first, or group by fewer fields"}
	}
	order := g.sorted()
	t := &Table{groups: len(by)}
	for _, x := range by {
		t.Columns = append(t.Columns, x.String())
	}
	if calls[0].fn == "histogram" {
		t.Columns = append(t.Columns, "from", "to", "count")
		for _, n := range order {
			a := g.acc(n, 0)
			for _, b := range a.histogram(&keep[0]) {
				from, to := bucketEnds(b)
				t.Lines = append(t.Lines, append(appendValues(nil, g.keys[n]), a.of(from), a.of(to), intValue(a.buckets[b])))
			}
		}
		return t, nil
	}
	for _, c := range calls {
		if c.fn == "quantile" {
			for _, q := range c.args {
				t.Columns = append(t.Columns, "quantile("+c.x.String()+", "+floatValue(q).String()+")")
			}
			continue
		}
		t.Columns = append(t.Columns, c.text)
	}
	t.Lines = make([][]Value, len(order))
	cells := make([]Value, len(order)*len(t.Columns))
	var next atomic.Int64
	work := func() {
		for n := int(next.Add(1) - 1); n < len(order); n = int(next.Add(1) - 1) {
			line := appendValues(cells[n*len(t.Columns):n*len(t.Columns)], g.keys[order[n]])
			for i, c := range calls {
				k := keep[at[i]]
				k.args = c.args
				line = g.acc(order[n], at[i]).appendResults(line, &k)
			}
			t.Lines[n] = line
		}
	}
	var wg sync.WaitGroup
	for range min(runtime.GOMAXPROCS(0), len(order)) - 1 {
		wg.Go(work)
	}
	work()
	wg.Wait()
	if len(t.Lines) == 1 && rows.Len() > 0 {
		for i, x := range by {
			if t.Lines[0][i].kind == kindNil {
				m.more = append(m.more, cmp.Or(m.noneHint(x), Hint{Text: "no selected row has " + x.String()}))
			}
		}
	}
	for _, c := range calls {
		if h := m.noneHint(c.x); h.Text != "" && rows.Len() > 0 {
			m.more = append(m.more, h)
		}
	}
	return t, nil
}

// appendValues appends the values of a key to a line.
func appendValues(line []Value, key string) []Value {
	for key != "" {
		var v Value
		v, key = cutKey(key)
		line = append(line, v)
	}
	return line
}

// valuesOf returns the values of an expression and their counts. In each group, the most frequent
// values come first.
func (m *machine) valuesOf(a *stageAggregate, by []expr, rows view.Set[view.Row]) (*Table, error) {
	t, err := m.table([]*stageAggregate{{fn: "count", text: "count"}}, slices.Concat(by, []expr{a.x}), rows)
	if err != nil {
		return nil, err
	}
	at := len(by)
	t.groups, t.Columns[at] = at, "value"
	t.Lines = slices.DeleteFunc(t.Lines, func(line []Value) bool { return line[at].kind == kindNil })
	for from, to := 0, 0; from < len(t.Lines); from = to {
		to = from + 1
		for to < len(t.Lines) && slices.Equal(t.Lines[from][:at], t.Lines[to][:at]) {
			to++
		}
		slices.SortFunc(t.Lines[from:to], func(x, y []Value) int {
			return cmp.Or(cmp.Compare(y[at+1].n, x[at+1].n), Compare(x[at], y[at]))
		})
	}
	return t, nil
}

// maxGroups is the maximum number of groups of a table. Each group takes some hundred bytes.
var maxGroups = 1 << 20

// having computes the aggregate for each trace, or for each group of each trace if by has expressions. It selects the
// rows of the traces or groups for which the comparison of the aggregate is true. It processes a few traces at a
// time, so that it has at most maxGroups groups in memory, or as many as one trace has rows.
func (m *machine) having(a *stageAggregate, by []expr, rows view.Set[view.Row]) (view.Set[view.Row], error) {
	if a.fn == "count" && len(by) == 0 {
		return m.havingCount(a, rows), nil
	}
	keep := []keeps{{fn: a.fn, args: a.args}}
	if a.x != nil {
		var err error
		keep[0].value, err = m.value(a.x)
		if err != nil {
			return nil, err
		}
	}
	keys, err := m.evals(by)
	if err != nil {
		return nil, err
	}
	e := &env{m: m, read: m.v.NewReader()}
	var key []byte
	keyOf := func(r view.Row) []byte {
		e.row = r
		key = endian.BigEndian.AppendUint32(key[:0], m.columns.Trace(uint32(r)))
		for _, f := range keys {
			key = appendKey(key, f(e))
		}
		return key
	}
	out := make(view.Set[view.Row], len(rows))
	g := newGroups(len(keep))
	var result []Value
	holds := func(acc *accumulator) bool {
		result = acc.appendResults(result[:0], &keep[0])
		return a.cond.holds(result[0])
	}
	// each calls fn for the rows of the traces from up to, but not including, to.
	each := func(from, to int, fn func(r view.Row)) {
		n := 0
		for r := range rows.All() {
			if t := int(m.columns.Trace(uint32(r))); from <= t && t < to {
				fn(r)
			}
			n++
			if n%4096 == 0 && m.ctx.Err() != nil {
				return
			}
		}
	}
	counts := m.tracesCounts(rows)
	each(0, 1, func(r view.Row) { // a row without a trace is a trace of its own
		e.row = r
		var acc accumulator
		acc.add(&keep[0], keep[0].of(e))
		if holds(&acc) {
			out.Add(r)
		}
	})
	for from, to := 1, 1; from < len(counts); from = to {
		for n := 0; to < len(counts) && (to == from || n+int(counts[to]) <= maxGroups); to++ {
			n += int(counts[to])
		}
		g.clear()
		each(from, to, func(r view.Row) { g.add(e, keep, keyOf(r)) })
		taken := make([]bool, len(g.keys))
		for n := range taken {
			taken[n] = holds(g.acc(n, 0))
		}
		each(from, to, func(r view.Row) {
			if taken[g.of(keyOf(r))] {
				out.Add(r)
			}
		})
	}
	return out, m.ctx.Err()
}

// tracesCounts returns the number of rows for each trace.
func (m *machine) tracesCounts(rows view.Set[view.Row]) []uint32 {
	counts := make([]uint32, m.columns.Traces())
	for r := range rows.All() {
		counts[m.columns.Trace(uint32(r))]++
	}
	return counts
}

// havingCount is like having, for count() without by.
func (m *machine) havingCount(a *stageAggregate, rows view.Set[view.Row]) view.Set[view.Row] {
	counts := m.tracesCounts(rows)
	keep := make([]bool, len(counts))
	for i, n := range counts {
		keep[i] = a.cond.holds(intValue(int64(n)))
	}
	keep[0] = a.cond.holds(intValue(1)) // a row without a trace is a trace of its own
	out := make(view.Set[view.Row], len(rows))
	for r := range rows.All() {
		if keep[m.columns.Trace(uint32(r))] {
			out.Add(r)
		}
	}
	return out
}
