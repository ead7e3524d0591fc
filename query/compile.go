package query

import (
	"context"
	"math"
	"math/bits"

	"github.com/entrace-go/entrace/internal/read/columns"
	"github.com/entrace-go/entrace/internal/read/spanstates"
	"github.com/entrace-go/entrace/view"
)

// An env holds the row for which expressions are evaluated. Each goroutine has its own env.
type env struct {
	m     *machine
	read  *view.Reader
	row   view.Row
	event view.Row // the event to which the fields event.… refer, 0 for none
	link  view.Row // the link to which the fields link.… refer, 0 for none

	finders map[*textNode]columns.Finder
	codes   []uint32 // see buffer
}

// buffer returns a slice for the codes of the n rows of a block. The slice is valid until the next call.
func (e *env) buffer(n int) []uint32 {
	if e.codes == nil {
		e.codes = make([]uint32, columns.BlockRows)
	}
	return e.codes[:n]
}

// eval computes the value of an expression for the row of an env.
type eval func(e *env) Value

// A machine runs a query on a view.
type machine struct {
	q       *Query
	ctx     context.Context //nolint:containedctx // the context of the one call that the machine serves
	v       *view.View
	columns columns.Columns // of v
	attrs   map[string]*attribute
	roles   uint64 // see selectedRoles
	few     bool   // only a few rows are read, so that making columns is not worth it
	// lacks has the comparisons with != or !~ by the text of their field, used for hints about rows without the
	// field.
	lacks map[string]lack

	traces   []traceInfo
	states   *spanstates.States
	noStates string // the reason why the states that the query uses are unknown, or empty
	more     []Hint
}

// A lack is an inequality of a field. The inequality does not select rows without the field, which may surprise
// the user.
type lack struct {
	x     *compare
	field *field
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
			if f, ok := x.a.(*field); ok && f.ofOneRole() {
				return func(e *env) Value { return boolValue(m.v.Role(e.row) == f.role && x.holds(a(e))) }, nil
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

// calculateWhole returns a op b. It returns false if the result is not an int64.
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
	c, err := m.column(f)
	if err != nil {
		return nil, err
	}
	if !f.parent {
		return c.row, nil
	}
	return func(e *env) Value {
		up := m.v.Parent(e.row)
		if role := m.v.Role(up); role != view.RoleSpan && role != view.RoleEvent && role != view.RoleLog {
			return Value{}
		}
		was := e.row
		e.row = up
		v := c.row(e)
		e.row = was
		return v
	}, nil
}

// A traceInfo summarizes the spans of a trace.
type traceInfo struct {
	first, last int64
	root        view.Row // the first span whose parent is not a span of the view
}

var noTrace = traceInfo{first: math.MaxInt64, last: math.MinInt64}

// findTraces sets m.traces.
func (m *machine) findTraces() error {
	if m.traces != nil {
		return nil
	}
	v := m.v
	m.traces = make([]traceInfo, m.columns.Traces())
	for i := range m.traces {
		m.traces[i] = noTrace
	}
	for r := range v.Rows() {
		if v.Role(r) != view.RoleSpan {
			continue
		}
		t := &m.traces[m.columns.Trace(uint32(r))]
		start, _ := v.Start(r)
		took, _ := v.Duration(r)
		t.first, t.last = min(t.first, start), max(t.last, start+int64(took))
		if v.Role(v.Parent(r)) != view.RoleSpan && t.root == 0 {
			t.root = r
		}
	}
	m.traces[0] = noTrace // the spans without a trace
	return nil
}

// traceOf returns the summary of the trace of a row. The summary is empty if the trace is not known.
func (m *machine) traceOf(r view.Row) *traceInfo { return &m.traces[m.columns.Trace(uint32(r))] }

// evals compiles a list of expressions.
func (m *machine) evals(list []expr) ([]eval, error) {
	all := make([]eval, len(list))
	for i, x := range list {
		var err error
		all[i], err = m.value(x)
		if err != nil {
			return nil, err
		}
	}
	return all, nil
}
