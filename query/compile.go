package query

import (
	"context"
	"encoding/hex"
	"math"
	"math/bits"

	"github.com/entrace-go/entrace/format"
	"github.com/entrace-go/entrace/internal/core/mapping"
	"github.com/entrace-go/entrace/internal/read/columns"
	"github.com/entrace-go/entrace/view"
)

// An env holds the row for which expressions are evaluated. Each goroutine has its own.
type env struct {
	m     *machine
	read  *view.Reader
	row   view.Row
	event view.Row // the event to which the fields event.… refer, 0 for none
	link  view.Row // the link to which the fields link.… refer, 0 for none

	finders map[*textNode]columns.Finder
}

// eval computes the value of an expression for the row of an env.
type eval func(e *env) Value

// A machine runs a query on a view.
type machine struct {
	q     *Query
	ctx   context.Context //nolint:containedctx // the context of the one call that the machine serves
	v     *view.View
	attrs map[string]*attribute
	roles uint64 // see selectedRoles
	few   bool   // only a few rows are read, so that making columns is not worth it
	// lacks has the comparisons with != or !~ by the text of their field, for hints about rows without the field.
	lacks map[string]lack

	traces   []traceInfo
	noStates string // the reason why the states that the query uses are unknown, or empty
	more     []Hint
}

// A lack is an inequality of a field. The inequality does not select rows without the field, which may surprise
// the user.
type lack struct {
	x     *compare
	field *field
	a     *attribute
}

// An attribute reads the values of an attribute from rows and from their resources.
type attribute struct {
	parts     []part  // one for each name under which it can be stored; the first part with a value counts
	resources []Value // by the number of the resource in columns.Block.Resource
	v         *view.View
}

// A part holds the values that are stored under one name, for all rows.
type part struct {
	column *columns.Column                       // nil if no column was made
	values []Value                               // the values of the column, by code
	read   func(row uint32) (format.Value, bool) // reads values that are not in the column
}

// attribute returns the attribute with the given name, which is the name that the application used.
func (m *machine) attribute(name string) (*attribute, error) {
	if a, ok := m.attrs[name]; ok {
		return a, nil
	}
	a := &attribute{v: m.v}
	stored := []string{name}
	if _, own := mapping.UserName(name); !own {
		stored = []string{"otel.attr." + name, name}
	}
	for _, s := range stored {
		if m.few {
			if _, kept := m.v.Columns().Kept(s); !kept {
				a.parts = append(a.parts, part{read: m.v.Columns().Attribute(s)})
				continue
			}
		}
		c, err := m.v.Columns().Column(m.ctx, s)
		if err != nil {
			return nil, err
		}
		values := make([]Value, len(c.Values)+1)
		for i, x := range c.Values {
			values[i+1] = ValueOf(x)
		}
		a.parts = append(a.parts, part{c, values, c.Value})
	}
	for _, r := range m.v.Columns().Resources() {
		v := Value{}
		if r != 0 {
			v = a.own(view.Row(r))
		}
		a.resources = append(a.resources, v)
	}
	m.attrs[name] = a
	return a, nil
}

// own returns the value of row r itself, without its resource.
func (a *attribute) own(r view.Row) Value {
	for i := range a.parts {
		p := &a.parts[i]
		if p.column != nil {
			code := p.column.Codes[r]
			if code == 0 {
				continue
			}
			if code != columns.UnknownText {
				return p.values[code]
			}
		}
		if v, ok := p.read(uint32(r)); ok {
			return ValueOf(v)
		}
	}
	return Value{}
}

// resource returns the value that the resource of row r has.
func (a *attribute) resource(r view.Row) Value {
	k := a.v.Columns().Block(int(r) / columns.BlockRows)
	if n := k.Resource[r%columns.BlockRows]; n != columns.Unknown {
		return a.resources[n]
	}
	return a.own(a.v.Resource(r))
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
		return func(e *env) Value { return negative(a(e)) }, nil
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
			if f, ok := x.a.(*field); ok {
				if role, ok := f.role(); ok {
					return func(e *env) Value { return boolValue(m.v.Role(e.row) == role && x.holds(a(e))) }, nil
				}
			}
			return func(e *env) Value { return boolValue(x.holds(a(e))) }, nil
		}
		b, err := m.value(x.b)
		if err != nil {
			return nil, err
		}
		return func(e *env) Value {
			c := x.comparison
			c.value = b(e)
			if c.value.kind == kindNil {
				return boolValue(false)
			}
			return boolValue(c.holds(a(e)))
		}, nil
	}
	return func(*env) Value { return Value{} }, nil
}

func negative(v Value) Value {
	if v.kind == kindFloat {
		return floatValue(-v.float())
	}
	return calculate("-", intValue(0), v)
}

func isTrue(v Value) bool { return v.kind == kindBool && v.n != 0 }

// calculate returns a op b, or nil if the result is undefined. The result is a float if it is not an int64.
func calculate(op string, a, b Value) Value {
	if !a.isNumber() || !b.isNumber() {
		return Value{}
	}
	kind := kindInt
	switch {
	case a.kind == kindTime && b.kind == kindTime:
		kind = kindDuration
	case a.kind == kindTime || b.kind == kindTime:
		kind = kindTime
	case a.kind == kindDuration || b.kind == kindDuration:
		kind = kindDuration
	}
	if op == "bucket" {
		kind = a.kind
	}
	floats := a.kind == kindFloat || b.kind == kindFloat
	if !floats && a.kind != kindUint && b.kind != kindUint {
		if n, ok := calculateWhole(op, a.n, b.n); ok {
			return Value{kind: kind, n: n}
		}
	}
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
	case "bucket":
		if y <= 0 {
			return Value{}
		}
		z = math.Floor(x/y) * y
	case "^":
		z = math.Pow(x, y)
		if !floats && z == math.Trunc(z) && math.Abs(z) < 1<<63 {
			return Value{kind: kind, n: int64(z)}
		}
	}
	if math.IsNaN(z) || math.IsInf(z, 0) {
		return Value{}
	}
	return floatValue(z)
}

// calculateWhole returns a op b, or false if the result is not an int64.
func calculateWhole(op string, a, b int64) (n int64, ok bool) {
	switch {
	case op == "+":
		n = a + b
		return n, (n > a) == (b > 0)
	case op == "-":
		n = a - b
		return n, (n < a) == (b > 0)
	case op == "*":
		hi, lo := bits.Mul64(magnitude(a), magnitude(b))
		return a * b, hi == 0 && lo <= math.MaxInt64
	case b == 0 || op == "^":
		return 0, false
	case op == "/":
		return a / b, a != math.MinInt64 || b != -1
	case op == "%":
		return a % b, true
	}
	rest := a % b // the operator is bucket
	if rest < 0 {
		rest += b
	}
	n = a - rest
	return n, b > 0 && n <= a
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
		return func(e *env) Value { return stringValue(e.read.Name(e.row)) }, nil
	case fieldLevel, fieldRole, fieldStatus, fieldKindOfSpan, fieldOpen, fieldFailed:
		return func(e *env) Value { return flagsValue(f.kind, v.Flags(e.row)) }, nil
	case fieldMessage:
		return func(e *env) Value {
			s, ok := v.Message(e.row)
			if !ok {
				return Value{}
			}
			return stringValue(s)
		}, nil
	case fieldTarget, fieldFile, fieldLine:
		return func(e *env) Value {
			m := v.Metadata(e.row)
			return metaValue(f.kind, &m)
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
				return Value{kind: kindTime, n: n}
			}
			return Value{}
		}, nil
	case fieldEntry:
		return func(e *env) Value { _, id := v.ID(e.row); return intValue(int64(id)) }, nil
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
	case fieldRunning, fieldRunnable, fieldSyscall, fieldGC, fieldMutex, fieldSync, fieldChan, fieldSelect, fieldNet, fieldSleep, fieldBlocked, fieldStates, fieldGoroutine:
		return m.stateField(f)
	case fieldDepth:
		return func(e *env) Value { return intValue(int64(v.Depth(e.row))) }, nil
	case fieldSpanID:
		return ofSpan(func(r view.Row) Value { return hexValue(v.Ref(r).SpanID) }), nil
	case fieldParentID:
		return ofSpan(func(r view.Row) Value {
			if up := v.Parent(r); v.Role(up) == view.RoleSpan {
				return hexValue(v.Ref(up).SpanID)
			}
			ref, _, _ := v.Missing(r)
			return hexValue(ref.SpanID)
		}), nil
	case fieldIsRoot:
		return ofSpan(func(r view.Row) Value {
			if v.Role(v.Parent(r)) == view.RoleSpan {
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
			return stringValue(hex.EncodeToString(id[:]))
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

// attributeField compiles a field that is stored as an attribute.
func (m *machine) attributeField(f *field) (eval, error) {
	name := f.name
	switch f.kind {
	case fieldStatusMessage:
		name = mapping.AttrStatusDescription
	case fieldLinkTrace:
		name = mapping.AttrLinkTraceID
	case fieldLinkSpan:
		name = mapping.AttrLinkSpanID
	case fieldScopeVersion:
		name = mapping.AttrScopeVersion
	case fieldOfScope:
		name = mapping.AttrScopePrefix + f.name
	}
	a, err := m.attribute(name)
	if err != nil {
		return nil, err
	}
	v := m.v
	switch f.kind {
	case fieldOfResource:
		return func(e *env) Value { return a.resource(e.row) }, nil
	case fieldOwn, fieldStatusMessage, fieldOfLog:
		role := view.RoleSpan
		if f.kind == fieldOfLog {
			role = view.RoleLog
		}
		return func(e *env) Value {
			if v.Role(e.row) != role {
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
		if x := a.own(e.row); x.kind != kindNil {
			return x
		}
		return a.resource(e.row)
	}, nil
}

func hexValue(id [8]byte) Value {
	if id == [8]byte{} {
		return Value{}
	}
	return stringValue(hex.EncodeToString(id[:]))
}

// A traceInfo summarizes the spans of a trace.
type traceInfo struct {
	first, last int64
	root        view.Row // the first span whose parent is not a span of the view
}

func (m *machine) findTraces() {
	if m.traces != nil {
		return
	}
	v := m.v
	m.traces = make([]traceInfo, v.Columns().Traces())
	for i := range m.traces {
		m.traces[i] = traceInfo{first: math.MaxInt64, last: math.MinInt64}
	}
	for r := range v.Rows() {
		if v.Role(r) != view.RoleSpan {
			continue
		}
		t := &m.traces[v.Columns().Trace(uint32(r))]
		start, _ := v.Start(r)
		took, _ := v.Duration(r)
		t.first, t.last = min(t.first, start), max(t.last, start+int64(took))
		if v.Role(v.Parent(r)) != view.RoleSpan && t.root == 0 {
			t.root = r
		}
	}
}

// traceOf returns the summary of the trace of a row, or nil if the trace is not known.
func (m *machine) traceOf(r view.Row) *traceInfo {
	if n := m.v.Columns().Trace(uint32(r)); n != 0 {
		return &m.traces[n]
	}
	return nil
}
