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
	// The rows of each code are counted: by flags, by name and role, and by resource. A query field that depends
	// only on such a code has the same value in all rows of the code.
	flags, metas, resources codeCounts
	unknown                 bool // the view does not know the name or the resource of some rows
}

// A codeCounts has the number of rows of each set for each code, and one row with the code.
type codeCounts struct {
	n   [][2]int64
	row []view.Row
}

func newCodeCounts(codes int) codeCounts {
	return codeCounts{make([][2]int64, codes), make([]view.Row, codes)}
}

func (c *codeCounts) add(code uint32, side int, r view.Row) {
	c.n[code][side]++
	c.row[code] = r
}

func (c *codeCounts) merge(o *codeCounts) {
	for i, n := range o.n {
		if n != [2]int64{} {
			c.n[i][0] += n[0]
			c.n[i][1] += n[1]
			c.row[i] = o.row[i]
		}
	}
}

// valueCounts has the number of rows of each set for each value.
type valueCounts struct {
	values []Value
	n      [][2]int64
	known  map[string]int
}

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
	c.n[i][0] += n[0]
	c.n[i][1] += n[1]
}

// roleCodes is the number of roles that are counted separately for each name.
const roleCodes = 16

// countFixed counts the codes of all rows.
func (c *counter) countFixed() error {
	metas, resources := roleCodes*len(c.v.Columns().Metas()), len(c.v.Columns().Resources())
	c.flags, c.metas, c.resources = newCodeCounts(1<<16), newCodeCounts(metas), newCodeCounts(resources)
	parts, err := columns.Collect(c.ctx, c.v.Columns().Each, func() (*counter, func(k int)) {
		p := &counter{flags: newCodeCounts(1 << 16), metas: newCodeCounts(metas), resources: newCodeCounts(resources)}
		return p, func(k int) {
			b := c.v.Columns().Block(k)
			for side, set := range c.sets {
				for i := range set[k*words64 : (k+1)*words64].All() {
					r := view.Row(b.First) + i
					p.flags.add(uint32(b.Flags[i]), side, r)
					if b.Meta[i] == columns.Unknown || b.Resource[i] == columns.Unknown {
						p.unknown = true
						continue
					}
					p.metas.add(roleCodes*uint32(b.Meta[i])+uint32(view.Flags(b.Flags[i]).Role()), side, r)
					p.resources.add(uint32(b.Resource[i]), side, r)
				}
			}
		}
	})
	for _, p := range parts {
		c.flags.merge(&p.flags)
		c.metas.merge(&p.metas)
		c.resources.merge(&p.resources)
		c.unknown = c.unknown || p.unknown
	}
	return err
}

// field adds the counts of the values of a field.
func (c *counter) field(name string, out *valueCounts) error {
	q, err := Parse("{} | count() by(" + name + ")")
	if err != nil {
		return err
	}
	a := q.root.stages[0].(*stageAggregate) //nolint:forcetypeassert // it is one
	m := q.machine(c.ctx, c.v)
	if f, isField := a.by[0].(*field); isField && !f.parent {
		if ok, err := c.coded(m, f, out); ok || err != nil {
			return err
		}
	}
	for side, rows := range c.sets {
		t, err := m.table([]*stageAggregate{a}, a.by, rows)
		if err != nil {
			return err
		}
		for _, line := range t.Lines {
			n, _ := line[1].number()
			var both [2]int64
			both[side] = int64(n)
			out.add(line[0], both)
		}
	}
	return nil
}

// coded counts the values of a field by codes. It returns false if the field has no codes.
func (c *counter) coded(m *machine, f *field, out *valueCounts) (ok bool, err error) {
	var codes *codeCounts
	switch {
	case f.inherits:
		return c.attribute(m, f.name, out)
	case f.user && f.of == ofEvent:
		return true, c.event(m, f.name, out)
	}
	x, err := m.column(f)
	if err != nil {
		return false, err
	}
	switch x.in {
	case inFlags:
		codes = &c.flags
	case inMeta:
		codes = &c.metas
	case inResource:
		codes = &c.resources
	}
	if codes == nil || c.unknown && codes != &c.flags {
		return false, nil
	}
	e := &env{m: m, read: c.v.NewReader()}
	for code, n := range codes.n {
		if n != [2]int64{} {
			e.row = codes.row[code]
			out.add(x.row(e), n)
		}
	}
	return true, nil
}

// eventsOf returns the events and log records to which event.x refers: those directly below a span, or a log record
// itself.
func (c *counter) eventsOf(row view.Row) (list []view.Row) {
	switch c.v.Role(row) {
	case view.RoleLog:
		return []view.Row{row}
	case view.RoleSpan:
		for _, kid := range c.v.Children(row) {
			if role := c.v.Role(kid); role == view.RoleLog || role == view.RoleEvent {
				list = append(list, kid)
			}
		}
	}
	return list
}

// event counts the values of an attribute of the log records and events directly below spans. A span with several
// values counts once for each.
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
			var seen []string
			for _, event := range c.eventsOf(row) {
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

// attribute counts the values of an attribute by the codes of its column. It returns false if the column does not
// have all values.
func (c *counter) attribute(m *machine, name string, out *valueCounts) (ok bool, err error) {
	a, err := m.attribute(name)
	if err != nil || len(a.parts) != 1 || a.parts[0].column == nil || c.unknown {
		return false, err
	}
	p := a.parts[0]
	own, resources := newCodeCounts(len(p.values)), newCodeCounts(len(a.resources))
	type part struct {
		own, resources codeCounts
		full           bool
	}
	parts, err := columns.Collect(c.ctx, c.v.Columns().Each, func() (*part, func(k int)) {
		x := &part{own: newCodeCounts(len(p.values)), resources: newCodeCounts(len(a.resources))}
		return x, func(k int) {
			resource, codes := c.v.Columns().Block(k).Resource, p.column.Block(k)
			for side, set := range c.sets {
				for i := range set[k*words64 : (k+1)*words64].All() {
					switch code := codes[i]; code {
					case columns.UnknownText:
						x.full = true
					case 0:
						x.resources.n[resource[i]][side]++
					default:
						x.own.n[code][side]++
					}
				}
			}
		}
	})
	if err != nil {
		return false, err
	}
	for _, x := range parts {
		if x.full {
			return false, nil
		}
		own.merge(&x.own)
		resources.merge(&x.resources)
	}
	for code, n := range own.n {
		out.add(p.values[code], n)
	}
	for code, n := range resources.n {
		out.add(a.resources[code], n)
	}
	return true, nil
}
