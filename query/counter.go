package query

import (
	"context"
	"slices"

	"github.com/entrace-go/entrace/internal/read/columns"
	"github.com/entrace-go/entrace/view"
)

// A counter counts the values of a field in two sets of rows.
type counter struct {
	ctx  context.Context //nolint:containedctx // the context of one call
	v    *view.View
	sets [2]view.Set[view.Row]
}

// valueCounts has the number of rows of each set for each value.
type valueCounts struct {
	values []Value
	n      [][2]int64
	sum    [2]int64 // of n
	known  map[string]int
}

// add adds the number of rows of each set that have the value v.
func (c *valueCounts) add(v Value, n [2]int64) {
	if v.kind == kindNil || n == [2]int64{} {
		return
	}
	if c.known == nil {
		c.known = make(map[string]int)
	}
	key := string(appendKey(nil, v))
	i, ok := c.known[key]
	if !ok {
		i = len(c.values)
		c.known[key] = i
		c.values, c.n = append(c.values, canonical(v)), append(c.n, [2]int64{})
	}
	for side, rows := range n {
		c.n[i][side] += rows
		c.sum[side] += rows
	}
}

// comparable reports whether the values can distinguish rows. It is false if all rows have the same value, or if the
// values are probably ids.
func (c *valueCounts) comparable(rows int64) bool {
	total := c.sum[0] + c.sum[1]
	isConstant := len(c.values) == 1 && total == rows
	return !isConstant && !isIDs(len(c.values), total) && len(c.values) <= maxCompared
}

// field adds the counts of the values of a field.
func (c *counter) field(name string, out *valueCounts) error {
	q, err := Parse("{} | count() by(" + name + ")")
	if err != nil {
		return err
	}
	f := q.root.stages[0].(*stageAggregate).by[0].(*field) //nolint:forcetypeassert // it is one
	m := q.machine(c.ctx, c.v)
	if f.of == ofEvent {
		return c.event(m, f.name, out)
	}
	return c.values(m, f, out)
}

// values adds the counts of the values of a field of the row itself. It stops if there are more than maxCompared values.
func (c *counter) values(m *machine, f *field, out *valueCounts) error {
	x, err := m.column(f)
	if err != nil {
		return err
	}
	if x.hasCodes(f) {
		counts, err := c.codes(m, x)
		if counts != nil || err != nil {
			for code, n := range counts {
				if n != [2]int64{} { // most codes have no rows
					out.add(x.value(code), n)
				}
			}
			return err
		}
	}
	for side, rows := range c.sets {
		g, err := m.group([]keeps{{fn: "count"}}, []expr{f}, rows, maxCompared+1) // plus the group of rows without a value
		if err != nil {
			return err
		}
		for group, key := range g.keys {
			v, _ := cutKey(key)
			var n [2]int64
			n[side] = g.acc(group, 0).n
			out.add(v, n)
		}
	}
	return nil
}

// codes counts the rows of each set for each code of a column. It returns nil if some rows have no code.
func (c *counter) codes(m *machine, x *column) ([][2]int64, error) {
	parts, err := columns.Collect(c.ctx, m.columns.Each, func() ([][2]int64, func(k int)) {
		e, n := &env{m: m, read: c.v.NewReader()}, make([][2]int64, x.width+1)
		return n, func(k int) {
			b := m.columns.Block(k)
			for side, set := range c.sets {
				rows := set[k*words64 : (k+1)*words64]
				if x.short != nil {
					countCodes(n, side, rows, x.short(&b))
				} else {
					countCodes(n, side, rows, x.long(e, k, &b))
				}
			}
		}
	})
	all := make([][2]int64, x.width+1)
	for _, n := range parts {
		for code := range n {
			all[code][0] += n[code][0]
			all[code][1] += n[code][1]
		}
	}
	if all[x.width] != [2]int64{} {
		return nil, err
	}
	return all[:x.width], err
}

// countCodes counts the rows of one set for each code. The last number is for all rows without a code.
func countCodes[C uint16 | uint32](n [][2]int64, side int, rows view.Set[view.Row], codes []C) {
	for i := range rows.All() {
		n[min(int(codes[i]), len(n)-1)][side]++
	}
}

// eventsBelow returns the log records and events directly below a span.
func eventsBelow(v *view.View, span view.Row) (list []view.Row) {
	if v.Role(span) != view.RoleSpan {
		return nil
	}
	for _, kid := range v.Children(span) {
		if role := v.Role(kid); role == view.RoleLog || role == view.RoleEvent {
			list = append(list, kid)
		}
	}
	return list
}

// event counts the values of an attribute of the log records and events directly below spans. A span with several
// values counts once for each value.
func (c *counter) event(m *machine, name string, out *valueCounts) error {
	a, err := m.attribute(name)
	if err != nil {
		return err
	}
	var key []byte
	for side, set := range c.sets {
		var one [2]int64
		one[side] = 1
		for row := range set.All() {
			if row%4096 == 0 && c.ctx.Err() != nil {
				return c.ctx.Err()
			}
			events := eventsBelow(c.v, row)
			if c.v.Role(row) == view.RoleLog { // event.x also refers to the log record itself
				events = append(events, row)
			}
			var seen []string
			for _, event := range events {
				v := a.own(event)
				key = appendKey(key[:0], v)
				if v.kind != kindNil && !slices.Contains(seen, string(key)) {
					seen = append(seen, string(key))
					out.add(v, one)
				}
			}
		}
	}
	return nil
}

// maxCompared is the maximum number of values of an attribute that are counted. An attribute with more values is
// probably an id.
const maxCompared = 10_000

// isIDs reports whether a field with this number of different values in this number of rows probably holds ids:
// whether each value occurs in fewer than two rows on average.
func isIDs(values int, rows int64) bool { return rows > 20 && int64(values) > rows/2 }
