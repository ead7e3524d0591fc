package query

import (
	"math"
	"math/bits"
	"slices"

	"github.com/entrace-go/entrace/internal/read/columns"
	"github.com/entrace-go/entrace/view"
)

// words64 is the number of uint64 words that hold a bit for each row of a block.
const words64 = columns.Words

// blockBits has a bit for each row of a block.
type blockBits [words64]uint64

// A node is a part of a compiled filter. Its method refine removes the rows for which the part is
// false from a set of rows of a block.
type node interface {
	refine(e *env, k int, b *columns.Block, set *blockBits)
	cost() int
}

type (
	allOf  []node
	anyOf  []node
	noneOf struct{ node }
	// rows evaluates a function for one row after the other.
	rows struct {
		is    func(e *env) bool
		price int
	}
	// bound is like rows, but for an expression about an event or a link of the row. It is true if the expression is
	// true for one of these events or links.
	bound struct {
		is          func(e *env) bool
		event, link bool
	}
	// lookup looks up the code of each row in table. If a code is not in table, it calls is(e).
	lookup[C uint16 | uint32] struct {
		codes func(e *env, k int, b *columns.Block) []C
		table []bool
		is    func(e *env) bool
		price int
	}
	// numbers is true for the numbers from low to low+width or, if not is set, for all other numbers. It is false for
	// the number none, which means that the row has no number.
	numbers struct {
		of    func(b *columns.Block) []int64
		none  int64
		low   int64
		width uint64
		not   bool
	}
)

func (a allOf) refine(e *env, k int, b *columns.Block, set *blockBits) {
	for _, n := range a {
		n.refine(e, k, b, set)
	}
}

func (a allOf) cost() int {
	sum := 0
	for _, n := range a {
		sum += n.cost()
	}
	return sum
}

func (a anyOf) refine(e *env, k int, b *columns.Block, set *blockBits) {
	var found blockBits
	for _, n := range a {
		left := *set
		for i := range left {
			left[i] &^= found[i]
		}
		n.refine(e, k, b, &left)
		for i := range left {
			found[i] |= left[i]
		}
	}
	*set = found
}

func (a anyOf) cost() int { return allOf(a).cost() }

func (n noneOf) refine(e *env, k int, b *columns.Block, set *blockBits) {
	not := *set
	n.node.refine(e, k, b, &not)
	for i := range set {
		set[i] &^= not[i]
	}
}

// each calls fn for each row of a set. It removes a row from the set if fn returns false.
func each(set *blockBits, fn func(i int) bool) {
	for w, word := range set {
		for left := word; left != 0; left &= left - 1 {
			bit := bits.TrailingZeros64(left)
			if !fn(w*64 + bit) {
				word &^= 1 << bit
			}
		}
		set[w] = word
	}
}

func (n *rows) refine(e *env, _ int, b *columns.Block, set *blockBits) {
	each(set, func(i int) bool {
		e.row = view.Row(b.First) + view.Row(i)
		return n.is(e)
	})
}
func (n *rows) cost() int { return n.price }

func (n *bound) refine(e *env, _ int, b *columns.Block, set *blockBits) {
	v := e.m.v
	each(set, func(i int) bool {
		e.row = view.Row(b.First) + view.Row(i)
		defer func() { e.event, e.link = 0, 0 }()
		var events, links []view.Row
		if role := v.Role(e.row); role == view.RoleEvent || role == view.RoleLog {
			events = append(events, e.row)
		} else {
			for _, kid := range v.Children(e.row) {
				switch v.Role(kid) {
				case view.RoleEvent, view.RoleLog:
					events = append(events, kid)
				case view.RoleLink:
					links = append(links, kid)
				}
			}
		}
		if !n.event || len(events) == 0 {
			events = []view.Row{0}
		}
		if !n.link || len(links) == 0 {
			links = []view.Row{0}
		}
		for _, e.event = range events {
			for _, e.link = range links {
				if n.is(e) {
					return true
				}
			}
		}
		return false
	})
}
func (n *bound) cost() int { return 1000 }

func (n *lookup[C]) refine(e *env, k int, b *columns.Block, set *blockBits) {
	codes, table := n.codes(e, k, b), n.table
	each(set, func(i int) bool {
		if c := codes[i]; uint64(c) < uint64(len(table)) {
			return table[c]
		}
		e.row = view.Row(b.First) + view.Row(i)
		return n.is(e)
	})
}
func (n *lookup[C]) cost() int { return n.price }

func (n *numbers) refine(_ *env, _ int, b *columns.Block, set *blockBits) {
	all, x := n.of(b), *n // x is a copy, so that the loop keeps it in registers
	each(set, func(i int) bool { return all[i] != x.none && (uint64(all[i]-x.low) <= x.width) != x.not })
}
func (n *numbers) cost() int { return 2 }

// within returns the node for the comparison of the numbers in a column with n.
func within(of func(b *columns.Block) []int64, none int64, op string, n int64) node {
	x := &numbers{of: of, none: none, low: n}
	switch op {
	case ">", "<=":
		x.low, x.width, x.not = math.MinInt64, uint64(n)-1<<63, op == ">"
	case ">=", "<":
		x.width, x.not = 1<<63-1-uint64(n), op == "<"
	default:
		x.not = op != "="
	}
	return x
}

// filter compiles a boolean expression to a node.
func (m *machine) filter(x expr) (node, error) {
	if x == nil {
		return allOf(nil), nil
	}
	if event, link := m.binds(x); event || link {
		return m.boundFilter(x, event, link)
	}
	switch x := x.(type) {
	case *binary:
		if x.op != "&&" && x.op != "||" {
			break
		}
		all, err := m.both(x.a, x.b)
		if err != nil {
			return nil, err
		}
		if x.op == "||" {
			return anyOf(all), nil
		}
		slices.SortStableFunc(all, func(a, b node) int { return a.cost() - b.cost() })
		return all, nil
	case *unary:
		if x.op == "!" {
			n, err := m.filter(x.x)
			return noneOf{n}, err
		}
	case *compare:
		if f, ok := x.a.(*field); ok && x.b == nil && !f.parent {
			return m.comparing(f, x)
		}
	case *words:
		return &textNode{is: m.words(x), texts: textsOf(x)}, nil
	}
	return m.eachRow(x)
}

// eachRow compiles an expression to a node that evaluates it for one row after the other.
func (m *machine) eachRow(x expr) (node, error) {
	value, err := m.value(x)
	return &rows{func(e *env) bool { return isTrue(value(e)) }, 50}, err
}

// comparing compiles the comparison of a field with a constant.
func (m *machine) comparing(f *field, x *compare) (n node, err error) {
	c, err := m.column(f)
	if err != nil {
		return nil, err
	}
	is := func(e *env) bool { return x.holds(c.row(e)) }
	switch k := x.value.kind; {
	case f.number != nil && (k == f.kind || k == kindInt):
		n = within(f.number, f.none, x.op, x.value.n)
	case c.short != nil:
		n = &lookup[uint16]{func(_ *env, _ int, b *columns.Block) []uint16 { return c.short(b) }, c.table(&x.comparison), is, 1}
	case f.message && !x.holds(Value{}): // few rows have a message
		n = allOf{withMessage{}, &lookup[uint32]{func(_ *env, _ int, b *columns.Block) []uint32 { return b.Text }, c.table(&x.comparison), is, 3}}
	case c.long != nil:
		n = &lookup[uint32]{c.long, c.table(&x.comparison), is, 3}
		if f.user && (x.op == "!~" || x.op == "!=" && x.value.kind != kindNil) {
			m.lacks[f.text] = lack{x, f}
		}
	default:
		n = &rows{is, 50}
	}
	if f.role != 0 {
		n = allOf{onlyRole(f.role), n}
	}
	return n, nil
}

// table returns for each code whether a comparison is true.
func (c *column) table(x *comparison) []bool {
	table := make([]bool, c.width)
	different := c.width
	if c.in == inFlags {
		different = usedFlags
	}
	last, holds := Value{}, x.holds(Value{})
	for code := range different {
		if v := c.value(code); v != last { // many consecutive flags have the same value
			last, holds = v, x.holds(v)
		}
		table[code] = holds
	}
	for code := different; code < c.width; code += different {
		copy(table[code:], table[:different])
	}
	return table
}

// boundFilter compiles an expression about events or links. Conditions joined by && apply to the
// same event or link.
func (m *machine) boundFilter(x expr, event, link bool) (node, error) {
	if b, ok := x.(*binary); ok && b.op == "&&" {
		// Evaluate a condition that is not about events or links first, because it is cheaper.
		if ae, al := m.binds(b.a); !ae && !al {
			return m.both(b.a, b.b)
		}
		if be, bl := m.binds(b.b); !be && !bl {
			return m.both(b.b, b.a)
		}
	}
	m.v.Tree()
	value, err := m.value(x)
	if err != nil {
		return nil, err
	}
	return &bound{func(e *env) bool { return isTrue(value(e)) }, event, link}, nil
}

func (m *machine) both(first, second expr) (allOf, error) {
	a, err := m.filter(first)
	if err != nil {
		return nil, err
	}
	b, err := m.filter(second)
	return allOf{a, b}, err
}

// binds reports whether an expression uses fields of an event or of a link.
func (m *machine) binds(x expr) (event, link bool) {
	visit(x, func(x expr) {
		if f, ok := x.(*field); ok {
			event, link = event || f.of == ofEvent, link || f.of == ofLink
		}
	})
	return event, link
}

// visit calls fn for an expression and all expressions inside of it.
func visit(x expr, fn func(x expr)) {
	if x == nil {
		return
	}
	fn(x)
	switch x := x.(type) {
	case *unary:
		visit(x.x, fn)
	case *binary:
		visit(x.a, fn)
		visit(x.b, fn)
	case *compare:
		visit(x.a, fn)
		visit(x.b, fn)
	}
}

// withMessage selects the rows that have a message.
type withMessage struct{}

func (withMessage) refine(_ *env, _ int, b *columns.Block, set *blockBits) {
	for w, rest := 0, b.Flags; len(rest) > 0; w++ {
		size := min(64, len(rest))
		word := uint64(0) // much faster than changing set for each row
		for i, f := range rest[:size] {
			bit := uint64(0)
			if view.Flags(f).HasMessage() {
				bit = 1
			}
			word |= bit << (i & 63) // with & 63, a shift needs no check
		}
		set[w] &= word
		rest = rest[size:]
	}
}
func (withMessage) cost() int { return 1 }

// onlyRole selects the rows of a role.
type onlyRole view.Role

func (n onlyRole) refine(_ *env, _ int, b *columns.Block, set *blockBits) {
	each(set, func(i int) bool { return view.Flags(b.Flags[i]).Role() == view.Role(n) })
}
func (onlyRole) cost() int { return 1 }
