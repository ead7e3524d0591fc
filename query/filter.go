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
	// bound is like rows, but for an expression about an event or a link of the row. It is true if
	// the expression is true for one of them.
	bound struct {
		is          func(e *env) bool
		event, link bool
	}
	// lookup looks up the code of each row in table: 0 is false, 1 is true. For 2, and for a code that is not in
	// table, it calls is(e).
	lookup[C uint16 | uint32] struct {
		codes func(b *columns.Block, k int) []C
		table []uint8
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

// each calls fn for each row of a set. It removes the rows for which fn returns false.
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
	codes := n.codes(b, k)
	each(set, func(i int) bool {
		switch c := codes[i]; {
		case uint64(c) >= uint64(len(n.table)) || n.table[c] == 2:
			e.row = view.Row(b.First) + view.Row(i)
			return n.is(e)
		default:
			return n.table[c] == 1
		}
	})
}
func (n *lookup[C]) cost() int { return n.price }

func (n *numbers) refine(_ *env, _ int, b *columns.Block, set *blockBits) {
	all, x := n.of(b), *n // a copy, so that the loop reads no memory for it
	each(set, func(i int) bool { return all[i] != x.none && (uint64(all[i]-x.low) <= x.width) != x.not })
}
func (n *numbers) cost() int { return 2 }

// comparing returns the node for the comparison of the numbers in a column with n.
func comparing(of func(b *columns.Block) []int64, none int64, op string, n int64) node {
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
		f, ok := x.a.(*field)
		if !ok || x.b != nil || f.parent {
			break
		}
		n, err := m.quick(f, &x.comparison)
		if err != nil {
			return nil, err
		}
		if a := m.attrs[f.name]; n != nil && a != nil && (x.op == "!~" || x.op == "!=" && x.value.kind != kindNil) {
			m.lacks[f.text] = lack{x, f, a}
		}
		if n == nil {
			n, err = m.eachRow(x)
			if err != nil {
				return nil, err
			}
		}
		if role, ok := f.role(); ok {
			n = allOf{onlyRole[role], n}
		}
		return n, nil
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
			switch f.kind {
			case fieldOfEvent, fieldEventName, fieldEventSince:
				event = true
			case fieldOfLink, fieldLinkTrace, fieldLinkSpan:
				link = true
			}
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

// usedFlags is greater than all flags on which a field depends. The flags above it only say what the view knows.
const usedFlags = 1 << 14

// quick returns a node for a comparison that can be evaluated with columns, or nil for other
// comparisons.
func (m *machine) quick(f *field, c *comparison) (node, error) {
	v := m.v
	get, err := m.fieldOf(f)
	if err != nil {
		return nil, err
	}
	is := func(e *env) bool { return c.holds(get(e)) }
	answer := func(x Value) uint8 {
		if c.holds(x) {
			return 1
		}
		return 0
	}
	switch f.kind {
	case fieldName, fieldTarget, fieldFile, fieldLine:
		metas := v.Columns().Metas()
		table := make([]uint8, len(metas))
		for i := range metas {
			table[i] = answer(metaValue(f.kind, &metas[i]))
		}
		return &lookup[uint16]{func(b *columns.Block, _ int) []uint16 { return b.Meta }, table, is, 1}, nil
	case fieldService:
		var table []uint8
		for _, r := range v.Columns().Resources() {
			x := Value{}
			if s := v.Service(view.Row(r)); r != 0 && s != "" {
				x = stringValue(s)
			}
			table = append(table, answer(x))
		}
		return &lookup[uint16]{func(b *columns.Block, _ int) []uint16 { return b.Resource }, table, is, 1}, nil
	case fieldLevel, fieldStatus, fieldKindOfSpan, fieldRole, fieldOpen, fieldFailed:
		table := make([]uint8, 1<<16)
		for i := range usedFlags {
			table[i] = answer(flagsValue(f.kind, view.Flags(i)))
		}
		for i := usedFlags; i < len(table); i += usedFlags {
			copy(table[i:], table[:usedFlags])
		}
		return &lookup[uint16]{flagsOf, table, is, 1}, nil
	case fieldDuration:
		if c.value.kind == kindInt || c.value.kind == kindDuration {
			return comparing(func(b *columns.Block) []int64 { return b.Duration }, columns.NoDuration, c.op, c.value.n), nil
		}
	case fieldStart:
		if c.value.kind == kindTime || c.value.kind == kindInt {
			return comparing(func(b *columns.Block) []int64 { return b.Start }, columns.NoTime, c.op, c.value.n), nil
		}
	case fieldMessage:
		messages := v.Columns().Messages()
		table := make([]uint8, len(messages))
		for i, s := range messages {
			table[i] = answer(stringValue(s))
		}
		return &messagesNode{table, answer(Value{}), is}, nil
	case fieldAttribute, fieldOwn, fieldOfLog:
		a, err := m.attribute(f.name)
		if err != nil || len(a.parts) != 1 || a.parts[0].column == nil {
			return nil, err
		}
		return m.quickAttribute(f, a, c, is), nil
	}
	return nil, nil //nolint:nilnil // there is no quick node
}

func flagsOf(b *columns.Block, _ int) []uint16 { return b.Flags }

// onlyRole has a node for each role that [field.role] returns. The node selects the rows of the
// role.
var onlyRole = map[view.Role]node{view.RoleSpan: newOnlyRole(view.RoleSpan), view.RoleLog: newOnlyRole(view.RoleLog)}

func newOnlyRole(role view.Role) node {
	table := make([]uint8, 1<<16)
	for i := range table {
		if view.Flags(i).Role() == role {
			table[i] = 1
		}
	}
	return &lookup[uint16]{flagsOf, table, nil, 1}
}

// quickAttribute returns the node for a comparison of an attribute.
func (m *machine) quickAttribute(f *field, a *attribute, c *comparison, is func(e *env) bool) node {
	table := make([]uint8, len(a.parts[0].values))
	for i, x := range a.parts[0].values {
		if c.holds(x) {
			table[i] = 1
		}
	}
	if f.kind == fieldAttribute {
		// A row that does not have the attribute gets the value of its resource.
		table[0] = 0
		for _, x := range a.resources {
			if c.holds(x) {
				table[0] = 2
			}
		}
	}
	col := a.parts[0].column
	return &lookup[uint32]{func(_ *columns.Block, k int) []uint32 { return col.Block(k) }, table, is, 3}
}

// messagesNode is the node for a comparison of the message.
type messagesNode struct {
	table []uint8
	none  uint8 // the result for rows without a message
	is    func(e *env) bool
}

func (n *messagesNode) refine(e *env, _ int, b *columns.Block, set *blockBits) {
	each(set, func(i int) bool {
		if !view.Flags(b.Flags[i]).HasMessage() {
			return n.none == 1
		}
		if c := b.Text[i]; c != columns.UnknownText {
			return n.table[c] == 1
		}
		e.row = view.Row(b.First) + view.Row(i)
		return n.is(e)
	})
}
func (n *messagesNode) cost() int { return 3 }
