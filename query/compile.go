package query

import (
	"context"
	"math"
	"math/bits"
	"slices"
	"strings"

	"github.com/entrace-go/entrace/format"
	"github.com/entrace-go/entrace/view"
)

// words64 is how many words the bits of a block take.
const words64 = view.BlockRows / 64

// blockBits are a bit for each row of a block.
type blockBits [words64]uint64

// An env is what expressions are evaluated in. Each goroutine has its own.
type env struct {
	m     *machine
	read  *view.Reader
	row   view.Row
	event view.Row // that event. is about, 0 for none
	link  view.Row // that link. is about
}

// eval computes the value of an expression for the row of an env.
type eval func(e *env) Value

// A machine runs a query on a view.
type machine struct {
	ctx   context.Context //nolint:containedctx // of the one call that it lives for
	v     *view.View
	attrs map[string]*attribute
	roles bool                  // the query asks for roles, so that all rows can be selected
	lacks map[string]*attribute // of != and !~, for a hint

	depths []uint32
	traces []traceInfo
}

// An attribute is one by the name that its application gave it: in rows, and in resources.
type attribute struct {
	columns   []*view.Column
	values    [][]Value // of the columns, by code
	resources []Value   // by the number of the resource
	unknown   *view.View
}

// attribute returns the attribute of that name.
func (m *machine) attribute(name string) (*attribute, error) {
	if a, ok := m.attrs[name]; ok {
		return a, nil
	}
	a := &attribute{unknown: m.v}
	stored := []string{name}
	if _, own := format.UserName(name); !own {
		stored = []string{"otel.attr." + name, name}
	}
	for _, s := range stored {
		c, err := m.v.Column(m.ctx, s)
		if err != nil {
			return nil, err
		}
		values := make([]Value, len(c.Values)+1)
		for i, x := range c.Values {
			values[i+1] = valueOf(x)
		}
		a.columns, a.values = append(a.columns, c), append(a.values, values)
	}
	for _, r := range m.v.Resources() {
		v := Value{}
		if r != 0 {
			v = a.own(r)
		}
		a.resources = append(a.resources, v)
	}
	m.attrs[name] = a
	return a, nil
}

// own returns the attribute of row r itself.
func (a *attribute) own(r view.Row) Value {
	for i, c := range a.columns {
		switch code := c.Code(r); code {
		case 0:
		case view.UnknownText:
			if v, ok := c.Attribute.Value(r); ok {
				return valueOf(v)
			}
		default:
			return a.values[i][code]
		}
	}
	return Value{}
}

// resource returns the attribute of the resource of row r.
func (a *attribute) resource(r view.Row) Value {
	k := a.unknown.Block(int(r) / view.BlockRows)
	if n := k.Resource[r%view.BlockRows]; n != view.Unknown {
		return a.resources[n]
	}
	return a.own(a.unknown.Resource(r))
}

// value compiles an expression.
func (m *machine) value(x expr) (eval, error) {
	switch x := x.(type) {
	case *literal:
		v := x.value
		return func(*env) Value { return v }, nil
	case *field:
		return m.field(x)
	case *words:
		text := m.words(x)
		return func(e *env) Value { return boolValue(text(e)) }, nil
	case *unary:
		a, err := m.value(x.x)
		if err != nil {
			return nil, err
		}
		if x.op == "!" {
			return func(e *env) Value { return boolValue(!isTrue(a(e))) }, nil
		}
		return func(e *env) Value { return calculate("-", intValue(0), a(e)) }, nil
	case *binary:
		a, err := m.value(x.a)
		if err != nil {
			return nil, err
		}
		b, err := m.value(x.b)
		if err != nil {
			return nil, err
		}
		switch x.op {
		case "&&":
			return func(e *env) Value { return boolValue(isTrue(a(e)) && isTrue(b(e))) }, nil
		case "||":
			return func(e *env) Value { return boolValue(isTrue(a(e)) || isTrue(b(e))) }, nil
		}
		op := x.op
		return func(e *env) Value { return calculate(op, a(e), b(e)) }, nil
	case *compare:
		a, err := m.value(x.a)
		if err != nil {
			return nil, err
		}
		if x.b == nil {
			return func(e *env) Value { return boolValue(x.holds(a(e))) }, nil
		}
		b, err := m.value(x.b)
		if err != nil {
			return nil, err
		}
		return func(e *env) Value {
			c := x.comparison
			c.value = b(e)
			if c.value.kind == KindNil {
				return boolValue(false)
			}
			return boolValue(c.holds(a(e)))
		}, nil
	}
	return func(*env) Value { return Value{} }, nil
}

func isTrue(v Value) bool { return v.kind == KindBool && v.n != 0 }

// calculate returns a op b, nil if that is not defined.
func calculate(op string, a, b Value) Value {
	if !a.isNumber() || !b.isNumber() {
		return Value{}
	}
	kind := KindInt
	if a.kind == KindDuration || b.kind == KindDuration {
		kind = KindDuration
	}
	if a.kind == KindFloat || b.kind == KindFloat || op == "^" {
		x, _ := a.number()
		y, _ := b.number()
		z := 0.0
		switch op {
		case "+":
			z = x + y
		case "-":
			z = x - y
		case "*":
			z = x * y
		case "/":
			z = x / y
		case "%":
			z = math.Mod(x, y)
		case "^":
			if z = math.Pow(x, y); a.kind != KindFloat && b.kind != KindFloat && z == math.Trunc(z) && math.Abs(z) < 1<<63 {
				return Value{kind: kind, n: int64(z)}
			}
		}
		if math.IsNaN(z) || math.IsInf(z, 0) {
			return Value{}
		}
		return floatValue(z)
	}
	n := int64(0)
	switch op {
	case "+":
		n = a.n + b.n
	case "-":
		n = a.n - b.n
	case "*":
		if hi, lo := bits.Mul64(magnitude(a.n), magnitude(b.n)); hi != 0 || lo > math.MaxInt64 {
			return floatValue(float64(a.n) * float64(b.n))
		}
		n = a.n * b.n
	default:
		if b.n == 0 {
			return Value{}
		}
		if op == "/" {
			n = a.n / b.n
		} else {
			n = a.n % b.n
		}
	}
	return Value{kind: kind, n: n}
}

func magnitude(n int64) uint64 {
	if n < 0 {
		return uint64(-n)
	}
	return uint64(n)
}

// field compiles a field.
func (m *machine) field(f *field) (eval, error) {
	get, err := m.fieldOf(f)
	if err != nil || !f.parent {
		return get, err
	}
	return func(e *env) Value {
		up := m.v.Parent(e.row)
		if role := m.v.Role(up); role != view.RoleSpan && role != view.RoleEvent && role != view.RoleLog {
			return Value{}
		}
		was := e.row
		e.row = up
		v := get(e)
		e.row = was
		return v
	}, nil
}

func (m *machine) fieldOf(f *field) (eval, error) {
	v := m.v
	ofSpan := func(get func(r view.Row) Value) eval {
		return func(e *env) Value {
			if v.Role(e.row) != view.RoleSpan {
				return Value{}
			}
			return get(e.row)
		}
	}
	switch f.kind {
	case fieldAttribute, fieldOwn, fieldOfLog, fieldOfResource, fieldOfEvent, fieldOfLink, fieldOfScope, fieldStatusMessage, fieldLinkTrace, fieldLinkSpan, fieldScopeVersion:
		return m.attributeField(f)
	case fieldName:
		return func(e *env) Value { return stringValue(v.Name(e.row)) }, nil
	case fieldLevel:
		return func(e *env) Value { return enumValue(KindLevel, uint8(v.Flags(e.row).Level())) }, nil
	case fieldMessage:
		return func(e *env) Value {
			s, ok := v.Message(e.row)
			if !ok {
				return Value{}
			}
			return stringValue(s)
		}, nil
	case fieldTarget:
		return func(e *env) Value { meta := v.Meta(e.row); return stringValue(meta.Target) }, nil
	case fieldFile:
		return func(e *env) Value {
			meta := v.Meta(e.row)
			if s, ok := meta.File(); ok {
				return stringValue(s)
			}
			return Value{}
		}, nil
	case fieldLine:
		return func(e *env) Value {
			meta := v.Meta(e.row)
			if n, ok := meta.Line(); ok {
				return intValue(int64(n))
			}
			return Value{}
		}, nil
	case fieldService:
		return func(e *env) Value {
			if s := v.Service(e.row); s != "" {
				return stringValue(s)
			}
			return Value{}
		}, nil
	case fieldStart:
		return func(e *env) Value {
			if n, ok := v.Start(e.row); ok {
				return Value{kind: KindTime, n: n}
			}
			return Value{}
		}, nil
	case fieldRole:
		return func(e *env) Value { return enumValue(KindRole, uint8(v.Role(e.row))) }, nil
	case fieldEntry:
		return func(e *env) Value { _, id := v.ID(e.row); return intValue(int64(id)) }, nil
	case fieldStatus:
		return ofSpan(func(r view.Row) Value { return enumValue(KindStatus, uint8(v.Flags(r).Status())) }), nil
	case fieldKindOfSpan:
		return ofSpan(func(r view.Row) Value { return enumValue(KindSpanKind, uint8(v.Flags(r).Kind())) }), nil
	case fieldDuration:
		return ofSpan(func(r view.Row) Value {
			if d, ok := v.Duration(r); ok {
				return durationValue(int64(d))
			}
			return Value{}
		}), nil
	case fieldSelf:
		v.Tree()
		return ofSpan(func(r view.Row) Value {
			if d, ok := v.SelfTime(r); ok {
				return durationValue(int64(d))
			}
			return Value{}
		}), nil
	case fieldDepth:
		m.findDepths()
		return func(e *env) Value { return intValue(int64(m.depths[e.row])) }, nil
	case fieldOpen:
		return ofSpan(func(r view.Row) Value { return boolValue(v.Flags(r).Open()) }), nil
	case fieldSpanID:
		return ofSpan(func(r view.Row) Value { return hexValue(v.SpanID(r)) }), nil
	case fieldParentID:
		return ofSpan(func(r view.Row) Value {
			if up := v.Parent(r); v.Role(up) == view.RoleSpan {
				return hexValue(v.SpanID(up))
			}
			ref, _, _ := v.Missing(r)
			return hexValue(ref.SpanID)
		}), nil
	case fieldIsRoot:
		return ofSpan(func(r view.Row) Value {
			if v.Role(v.Parent(r)) == view.RoleSpan || v.Flags(r).Missing() {
				return intValue(1)
			}
			return Value{}
		}), nil
	case fieldChildCount:
		v.Tree()
		return ofSpan(func(r view.Row) Value {
			n := int64(0)
			for _, kid := range v.Children(r) {
				if v.Role(kid) == view.RoleSpan {
					n++
				}
			}
			return intValue(n)
		}), nil
	case fieldTraceID:
		return func(e *env) Value {
			id := v.TraceID(e.row)
			if id == [16]byte{} {
				return Value{}
			}
			return stringValue(hexText(id[:]))
		}, nil
	case fieldTraceDuration, fieldRootName, fieldRootService:
		m.findTraces()
		return func(e *env) Value {
			t := m.traceOf(e.row)
			switch {
			case t == nil:
				return Value{}
			case f.kind == fieldTraceDuration:
				if t.last >= t.first {
					return durationValue(t.last - t.first)
				}
			case t.root != 0 && f.kind == fieldRootName:
				return stringValue(v.Name(t.root))
			case t.root != 0:
				return stringValue(v.Service(t.root))
			}
			return Value{}
		}, nil
	case fieldEventName:
		return func(e *env) Value {
			if e.event == 0 {
				return Value{}
			}
			if s, ok := v.Message(e.event); ok {
				return stringValue(s)
			}
			return stringValue(v.Name(e.event))
		}, nil
	case fieldEventSince:
		return func(e *env) Value {
			at, ok := v.Start(e.event)
			from, ok2 := v.Start(v.Owner(e.event))
			if e.event == 0 || !ok || !ok2 {
				return Value{}
			}
			return durationValue(at - from)
		}, nil
	}
	return func(*env) Value { return Value{} }, nil
}

// attributeField compiles a field that is an attribute.
func (m *machine) attributeField(f *field) (eval, error) {
	name := f.name
	switch f.kind {
	case fieldStatusMessage:
		name = format.AttrStatusDescription
	case fieldLinkTrace:
		name = format.AttrLinkTraceID
	case fieldLinkSpan:
		name = format.AttrLinkSpanID
	case fieldScopeVersion:
		name = format.AttrScopeVersion
	case fieldOfScope:
		name = format.AttrScopePrefix + f.name
	}
	a, err := m.attribute(name)
	if err != nil {
		return nil, err
	}
	v := m.v
	switch f.kind {
	case fieldOfResource:
		return func(e *env) Value { return a.resource(e.row) }, nil
	case fieldOwn, fieldStatusMessage:
		return func(e *env) Value {
			if v.Role(e.row) != view.RoleSpan {
				return Value{}
			}
			return a.own(e.row)
		}, nil
	case fieldOfLog:
		return func(e *env) Value {
			if v.Role(e.row) != view.RoleLog {
				return Value{}
			}
			return a.own(e.row)
		}, nil
	case fieldOfEvent:
		return func(e *env) Value {
			if e.event == 0 {
				return Value{}
			}
			return a.own(e.event)
		}, nil
	case fieldOfLink, fieldLinkTrace, fieldLinkSpan:
		return func(e *env) Value {
			if e.link == 0 {
				return Value{}
			}
			return a.own(e.link)
		}, nil
	case fieldOfScope, fieldScopeVersion:
		return func(e *env) Value { return a.own(e.row) }, nil
	}
	return func(e *env) Value {
		if x := a.own(e.row); x.kind != KindNil {
			return x
		}
		return a.resource(e.row)
	}, nil
}

func hexValue(id [8]byte) Value {
	if id == [8]byte{} {
		return Value{}
	}
	return stringValue(hexText(id[:]))
}

func hexText(id []byte) string {
	const digits = "0123456789abcdef"
	b := make([]byte, 0, 32)
	for _, c := range id {
		b = append(b, digits[c>>4], digits[c&15])
	}
	return string(b)
}

// A traceInfo is what is known of a trace as a whole.
type traceInfo struct {
	first, last int64
	root        view.Row // its first span without a parent that is there
}

func (m *machine) findTraces() {
	if m.traces != nil {
		return
	}
	v := m.v
	m.traces = make([]traceInfo, v.Traces())
	for i := range m.traces {
		m.traces[i] = traceInfo{first: math.MaxInt64, last: math.MinInt64}
	}
	for r := range v.Rows() {
		if v.Role(r) != view.RoleSpan {
			continue
		}
		t := &m.traces[v.Trace(r)]
		start, _ := v.Start(r)
		took, _ := v.Duration(r)
		t.first, t.last = min(t.first, start), max(t.last, start+int64(took))
		if v.Role(v.Parent(r)) != view.RoleSpan && t.root == 0 {
			t.root = r
		}
	}
}

// traceOf returns what is known of the trace of a row, nil if that is not known.
func (m *machine) traceOf(r view.Row) *traceInfo {
	if n := m.v.Trace(r); n != 0 {
		return &m.traces[n]
	}
	return nil
}

func (m *machine) findDepths() {
	if m.depths != nil {
		return
	}
	m.depths = make([]uint32, m.v.Len())
	_ = m.v.Walk(0, func(r view.Row, depth int, _ bool) error {
		m.depths[r] = uint32(depth)
		return nil
	})
}

// words compiles free text.
func (m *machine) words(w *words) func(e *env) bool {
	v := m.v
	match := func(s string) bool {
		if w.regex != nil {
			return w.regex.MatchString(s)
		}
		return containsFold(s, w.fold)
	}
	return func(e *env) bool {
		r := e.row
		meta := v.Meta(r)
		if match(meta.Name) || match(meta.Target) {
			return true
		}
		if s, ok := v.Message(r); ok && match(s) {
			return true
		}
		if w.regex == nil && !v.MayContain(r, w.fold) {
			return false
		}
		entry, err := e.read.Entry(r)
		if err != nil {
			return false
		}
		for i := range entry.Attributes {
			a := &entry.Attributes[i]
			name, own := format.UserName(a.Name)
			if !own && a.Name != format.AttrStatusDescription {
				continue
			}
			if own && match(name) || a.Value.Kind() == format.KindString && match(a.Value.Text()) {
				return true
			}
		}
		return false
	}
}

// containsFold reports whether s contains a text in lower case, whatever the case of s.
func containsFold(s, fold string) bool {
	if fold == "" {
		return true
	}
	if len(s) < len(fold) {
		return false
	}
	first := fold[0]
	if first >= 0x80 {
		return strings.Contains(strings.ToLower(s), fold)
	}
	for i := 0; i+len(fold) <= len(s); i++ {
		if c := s[i]; c|0x20 != first|0x20 && c < 0x80 {
			continue
		}
		k := 0
		for k < len(fold) && lower(s[i+k]) == fold[k] {
			k++
		}
		if k == len(fold) {
			return true
		}
		if s[i] >= 0x80 || k < len(fold) && s[i+k] >= 0x80 {
			return strings.Contains(strings.ToLower(s), fold)
		}
	}
	return false
}

func lower(c byte) byte {
	if c >= 'A' && c <= 'Z' {
		return c + 'a' - 'A'
	}
	return c
}

// A node is a part of a filter: it takes the rows that it does not want from a set.
type node interface {
	refine(e *env, k int, b *view.Block, set *blockBits)
	cost() int
}

type (
	allOf  []node
	anyOf  []node
	noneOf struct{ node }
	// rows looks at one row after the other.
	rows struct {
		is    func(e *env) bool
		price int
	}
	// bound is rows whose expression is about an event or a link of the row.
	bound struct {
		is          func(e *env) bool
		event, link bool
	}
	// coded looks codes up in a table: 0 no, 1 yes, 2 ask is.
	coded16 struct {
		codes func(b *view.Block) []uint16
		table []uint8
		is    func(e *env) bool
	}
	coded32 struct {
		codes func(b *view.Block, k int) []uint32
		table []uint8
		is    func(e *env) bool
	}
	numbers struct {
		of   func(b *view.Block) []int64
		none int64
		op   string
		n    int64
	}
)

func (a allOf) refine(e *env, k int, b *view.Block, set *blockBits) {
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

func (a anyOf) refine(e *env, k int, b *view.Block, set *blockBits) {
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

func (n noneOf) refine(e *env, k int, b *view.Block, set *blockBits) {
	not := *set
	n.node.refine(e, k, b, &not)
	for i := range set {
		set[i] &^= not[i]
	}
}

// each calls fn for the rows of a set, and takes those from it for which that is false.
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

func (n *rows) refine(e *env, _ int, b *view.Block, set *blockBits) {
	each(set, func(i int) bool {
		e.row = b.First + view.Row(i)
		return n.is(e)
	})
}
func (n *rows) cost() int { return n.price }

func (n *bound) refine(e *env, _ int, b *view.Block, set *blockBits) {
	v := e.m.v
	each(set, func(i int) bool {
		e.row = b.First + view.Row(i)
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

func (n *coded16) refine(e *env, _ int, b *view.Block, set *blockBits) {
	codes := n.codes(b)
	each(set, func(i int) bool {
		switch c := codes[i]; {
		case int(c) >= len(n.table) || n.table[c] == 2:
			e.row = b.First + view.Row(i)
			return n.is(e)
		default:
			return n.table[c] == 1
		}
	})
}
func (n *coded16) cost() int { return 1 }

func (n *coded32) refine(e *env, k int, b *view.Block, set *blockBits) {
	codes := n.codes(b, k)
	each(set, func(i int) bool {
		switch c := codes[i]; {
		case uint64(c) >= uint64(len(n.table)) || n.table[c] == 2:
			e.row = b.First + view.Row(i)
			return n.is(e)
		default:
			return n.table[c] == 1
		}
	})
}
func (n *coded32) cost() int { return 3 }

func (n *numbers) refine(_ *env, _ int, b *view.Block, set *blockBits) {
	all := n.of(b)
	none, want := n.none, n.n
	var is func(x int64) bool
	switch n.op {
	case ">":
		is = func(x int64) bool { return x > want }
	case ">=":
		is = func(x int64) bool { return x >= want }
	case "<":
		is = func(x int64) bool { return x < want }
	case "<=":
		is = func(x int64) bool { return x <= want }
	case "=":
		is = func(x int64) bool { return x == want }
	default:
		is = func(x int64) bool { return x != want }
	}
	each(set, func(i int) bool { return all[i] != none && is(all[i]) })
}
func (n *numbers) cost() int { return 2 }

// filter compiles an expression that is true or false.
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
		a, err := m.filter(x.a)
		if err != nil {
			return nil, err
		}
		b, err := m.filter(x.b)
		if err != nil {
			return nil, err
		}
		if x.op == "||" {
			return anyOf{a, b}, nil
		}
		all := allOf{a, b}
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
		if n == nil {
			value, err := m.value(x)
			if err != nil {
				return nil, err
			}
			n = &rows{func(e *env) bool { return isTrue(value(e)) }, 50}
		}
		if f.kind.ofSpans() {
			n = allOf{spansOnly, n} // that it is nil says nothing of other rows
		}
		return n, nil
	case *words:
		is := m.words(x)
		return &rows{is, 500}, nil
	}
	value, err := m.value(x)
	if err != nil {
		return nil, err
	}
	return &rows{func(e *env) bool { return isTrue(value(e)) }, 50}, nil
}

// boundFilter compiles an expression about events or links: what is side by side is about the
// same one.
func (m *machine) boundFilter(x expr, event, link bool) (node, error) {
	if b, ok := x.(*binary); ok && b.op == "&&" {
		// What is not about them is cheaper, and comes first.
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

func (m *machine) both(first, second expr) (node, error) {
	a, err := m.filter(first)
	if err != nil {
		return nil, err
	}
	b, err := m.filter(second)
	return allOf{a, b}, err
}

// binds reports whether an expression is about an event or a link.
func (m *machine) binds(x expr) (event, link bool) {
	visit(x, func(f *field) {
		switch f.kind {
		case fieldOfEvent, fieldEventName, fieldEventSince:
			event = true
		case fieldOfLink, fieldLinkTrace, fieldLinkSpan:
			link = true
		}
	})
	return event, link
}

// visit calls fn for the fields of an expression.
func visit(x expr, fn func(f *field)) {
	switch x := x.(type) {
	case *field:
		fn(x)
	case *unary:
		visit(x.x, fn)
	case *binary:
		visit(x.a, fn)
		visit(x.b, fn)
	case *compare:
		visit(x.a, fn)
		if x.b != nil {
			visit(x.b, fn)
		}
	}
}

// quick returns a node for the comparisons that columns answer, nil for others.
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
		metas := v.Metas()
		table := make([]uint8, len(metas))
		for i := range metas {
			table[i] = answer(metaValue(f.kind, &metas[i]))
		}
		return &coded16{func(b *view.Block) []uint16 { return b.Meta }, table, is}, nil
	case fieldService:
		var table []uint8
		for _, r := range v.Resources() {
			x := Value{}
			if s := v.Service(r); r != 0 && s != "" {
				x = stringValue(s)
			}
			table = append(table, answer(x))
		}
		return &coded16{func(b *view.Block) []uint16 { return b.Resource }, table, is}, nil
	case fieldLevel, fieldStatus, fieldKindOfSpan, fieldRole, fieldOpen:
		table := make([]uint8, 1<<16)
		for i := range table {
			table[i] = answer(flagsValue(f.kind, view.Flags(i)))
		}
		return &coded16{func(b *view.Block) []uint16 { return b.Flags }, table, is}, nil
	case fieldDuration:
		if c.op != "in" && c.op != "not in" && c.op != "=~" && c.op != "!~" && c.op != "contains" && (c.value.kind == KindInt || c.value.kind == KindDuration) {
			return allOf{spansOnly, &numbers{func(b *view.Block) []int64 { return b.Duration }, view.NoDuration, c.op, c.value.n}}, nil
		}
	case fieldStart:
		if c.value.kind == KindTime || c.value.kind == KindInt {
			return &numbers{func(b *view.Block) []int64 { return b.Start }, view.NoTime, c.op, c.value.n}, nil
		}
	case fieldMessage:
		messages := v.Messages()
		table := make([]uint8, len(messages))
		for i, s := range messages {
			table[i] = answer(stringValue(s))
		}
		none := answer(Value{})
		return &messagesNode{table, none, is}, nil
	case fieldAttribute, fieldOwn, fieldOfLog:
		a, err := m.attribute(f.name)
		if err != nil || len(a.columns) > 1 {
			return nil, err
		}
		return m.quickAttribute(f, a, c, is), nil
	}
	return nil, nil //nolint:nilnil // there is none
}

// spansOnly are the rows that are spans.
var spansOnly = func() *coded16 {
	table := make([]uint8, 1<<16)
	for i := range table {
		if view.Flags(i).Role() == view.RoleSpan {
			table[i] = 1
		}
	}
	return &coded16{codes: func(b *view.Block) []uint16 { return b.Flags }, table: table}
}()

// quickAttribute returns the node of a comparison of an attribute.
func (m *machine) quickAttribute(f *field, a *attribute, c *comparison, is func(e *env) bool) node {
	table := make([]uint8, len(a.values[0]))
	for i, x := range a.values[0] {
		if c.holds(x) {
			table[i] = 1
		}
	}
	if f.kind == fieldAttribute {
		// Without one of its own a row has that of its resource.
		table[0] = 0
		for _, x := range a.resources {
			if c.holds(x) {
				table[0] = 2
			}
		}
	}
	if c.op == "!=" || c.op == "!~" {
		m.lacks[f.text] = a
	}
	col := a.columns[0]
	n := &coded32{func(_ *view.Block, k int) []uint32 { return col.Codes(k) }, table, is}
	switch f.kind {
	case fieldOwn:
		return allOf{spansOnly, n}
	case fieldOfLog:
		return allOf{&rows{func(e *env) bool { return m.v.Role(e.row) == view.RoleLog }, 2}, n}
	}
	return n
}

// messagesNode looks at messages.
type messagesNode struct {
	table []uint8
	none  uint8 // for rows without a message
	is    func(e *env) bool
}

func (n *messagesNode) refine(e *env, _ int, b *view.Block, set *blockBits) {
	each(set, func(i int) bool {
		if !view.Flags(b.Flags[i]).HasMessage() {
			return n.none == 1
		}
		if c := b.Text[i]; c != view.UnknownText {
			return n.table[c] == 1
		}
		e.row = b.First + view.Row(i)
		return n.is(e)
	})
}
func (n *messagesNode) cost() int { return 3 }

// metaValue returns what a meta says of a field.
func metaValue(kind fieldKind, m *view.Meta) Value {
	switch kind {
	case fieldName:
		return stringValue(m.Name)
	case fieldTarget:
		return stringValue(m.Target)
	case fieldFile:
		if s, ok := m.File(); ok {
			return stringValue(s)
		}
	case fieldLine:
		if n, ok := m.Line(); ok {
			return intValue(int64(n))
		}
	}
	return Value{}
}

// flagsValue returns what flags say of a field.
func flagsValue(kind fieldKind, f view.Flags) Value {
	switch {
	case kind == fieldLevel:
		return enumValue(KindLevel, uint8(f.Level()))
	case kind == fieldRole:
		return enumValue(KindRole, uint8(f.Role()))
	case f.Role() != view.RoleSpan:
		return Value{}
	case kind == fieldStatus:
		return enumValue(KindStatus, uint8(f.Status()))
	case kind == fieldOpen:
		return boolValue(f.Open())
	}
	return enumValue(KindSpanKind, uint8(f.Kind()))
}
