package query_test

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/entrace-go/entrace/format"
	"github.com/entrace-go/entrace/internal/core/mapping"
	"github.com/entrace-go/entrace/internal/testkit/expect"
	"github.com/entrace-go/entrace/internal/testkit/hosttest"
	"github.com/entrace-go/entrace/internal/testkit/querytest"
	"github.com/entrace-go/entrace/internal/testkit/tracetest"
	"github.com/entrace-go/entrace/query"
	"github.com/entrace-go/entrace/view"
)

var (
	must         = expect.Must
	viewOf       = querytest.View
	runOn        = querytest.Run
	everything   = querytest.Everything
	hasException = querytest.HasException
	span         = querytest.Span
	shop         = querytest.Shop
	fixed        = querytest.Fixed
)

func viewWith(t testing.TB, entries []*format.TraceEntry, o *view.Options) *view.View {
	t.Helper()
	v, err := view.New(t.Context(), []*format.File{tracetest.New(t, format.V1, format.IET, entries...).Open()}, o)
	must(t, err)
	return v
}

// A plain is a simple model of a view, with which results are compared: a list of entries without
// columns.
type plain struct {
	t *testing.T
	v *view.View
	e []*format.TraceEntry // by row
}

func plainOf(t *testing.T, v *view.View) *plain {
	p := &plain{t: t, v: v}
	for r := range v.Rows() {
		e, err := v.Entry(r)
		must(t, err)
		p.e = append(p.e, e)
	}
	return p
}

func (p *plain) selectable(r view.Row) bool {
	return slices.Contains([]view.Role{view.RoleSpan, view.RoleLog, view.RoleEvent}, p.v.Role(r))
}

// attribute returns an attribute of the row, or of its resource.
func (p *plain) attribute(r view.Row, name string) (format.Value, bool) {
	if a, ok := p.e[r].Attribute(name); ok {
		return a, true
	}
	for r != 0 && p.v.Role(r) != view.RoleResource {
		r = view.Row(p.e[r].Parent)
	}
	if r == 0 {
		return format.Value{}, false
	}
	return p.e[r].Attribute(name)
}

// A condition is a filter and a function that evaluates it.
type condition struct {
	text string
	is   func(r view.Row) bool
}

func cmpInts(op string, a, b int64) bool {
	switch op {
	case "=":
		return a == b
	case "!=":
		return a != b
	case "<":
		return a < b
	case "<=":
		return a <= b
	case ">":
		return a > b
	}
	return a >= b
}

// condition returns a random filter.
func (p *plain) condition(r *rand.Rand, depth int) condition {
	op := []string{"=", "!=", "<", "<=", ">", ">="}[r.IntN(6)]
	eq := op[:min(len(op), 2)]
	if eq != "=" && eq != "!=" {
		eq = "="
	}
	is := func(a, b string) bool { return (a == b) == (eq == "=") }
	role := func(row view.Row) view.Role { return p.v.Role(row) }
	if depth > 0 && r.IntN(2) == 0 {
		a, b := p.condition(r, depth-1), p.condition(r, depth-1)
		switch r.IntN(3) {
		case 0:
			return condition{"(" + a.text + " && " + b.text + ")", func(x view.Row) bool { return a.is(x) && b.is(x) }}
		case 1:
			return condition{"(" + a.text + " || " + b.text + ")", func(x view.Row) bool { return a.is(x) || b.is(x) }}
		}
		return condition{"!(" + a.text + ")", func(x view.Row) bool { return !a.is(x) }}
	}
	kinds := 15
	if depth == 2 {
		kinds = 16 // no conditions about events: within one filter, all of them must hold for the same event
	}
	switch r.IntN(kinds) {
	case 0:
		want := []string{"GET /cart", "exception", "nothing"}[r.IntN(3)]
		return condition{fmt.Sprintf("name %s %q", eq, want), func(x view.Row) bool { return is(p.e[x].Metadata.Name, want) }}
	case 1:
		n := int64(r.IntN(1000))
		return condition{fmt.Sprintf("duration %s %d", op, n), func(x view.Row) bool {
			d, ok := p.e[x].Attribute(format.AttrDuration)
			got, _ := d.I64()
			return ok && role(x) == view.RoleSpan && cmpInts(op, got, n)
		}}
	case 2:
		l := r.IntN(5)
		return condition{fmt.Sprintf("level %s %s", op, []string{"trace", "debug", "info", "warn", "error"}[l]), func(x view.Row) bool {
			level := p.e[x].Metadata.Level
			if hasException(p.v, x) || role(x) == view.RoleSpan && p.v.Flags(x).Status() == "error" {
				level = format.LevelError
			}
			return cmpInts(op, int64(level), int64(l))
		}}
	case 3:
		want := []string{"ada", "bob", "nobody"}[r.IntN(3)]
		return condition{fmt.Sprintf(".user %s %q", eq, want), func(x view.Row) bool {
			a, ok := p.attribute(x, "user")
			return ok && is(a.Text(), want)
		}}
	case 4:
		n := int64(r.IntN(5))
		return condition{fmt.Sprintf("span.n %s %d", op, n), func(x view.Row) bool {
			a, ok := p.e[x].Attribute("n")
			got, _ := a.I64()
			return ok && role(x) == view.RoleSpan && cmpInts(op, got, n)
		}}
	case 5:
		return condition{".ratio * 2 " + op + " .n", func(x view.Row) bool {
			a, ok := p.attribute(x, "ratio")
			b, ok2 := p.attribute(x, "n")
			n, _ := b.I64()
			return ok && ok2 && cmpInts(op, int64(a.Float()*2), n)
		}}
	case 6:
		want := []string{"shop", "stock"}[r.IntN(2)]
		return condition{fmt.Sprintf("service %s %q", eq, want), func(x view.Row) bool {
			a, ok := p.attribute(x, "service.name")
			return ok && is(a.Text(), want)
		}}
	case 7:
		want := []string{"ok", "error", "unset"}[r.IntN(3)]
		return condition{fmt.Sprintf("status %s %s", eq, want), func(x view.Row) bool {
			a, _ := p.e[x].Attribute(mapping.AttrStatusCode)
			got := strings.ToLower(a.Text())
			if got == "" {
				got = "unset"
			}
			return role(x) == view.RoleSpan && is(got, want)
		}}
	case 8:
		return condition{`message contains "PAY"`, func(x view.Row) bool {
			return p.e[x].Message.Valid && strings.Contains(strings.ToLower(p.e[x].Message.Value), "pay")
		}}
	case 9:
		return condition{`.user =~ "a.*|Eve"`, func(x view.Row) bool {
			a, ok := p.attribute(x, "user")
			return ok && (strings.HasPrefix(a.Text(), "a") || a.Text() == "Eve")
		}}
	case 10:
		return condition{`parent.user = "ada"`, func(x view.Row) bool {
			up := view.Row(p.e[x].Parent)
			a, ok := p.attribute(up, "user")
			return p.selectable(up) && ok && a.Text() == "ada"
		}}
	case 11:
		text := []string{".user = nil", "nil = .user"}[r.IntN(2)]
		return condition{text, func(x view.Row) bool { _, ok := p.attribute(x, "user"); return !ok }}
	case 12:
		return condition{`.n in (1, 3.0)`, func(x view.Row) bool {
			a, ok := p.attribute(x, "n")
			n, _ := a.I64()
			return ok && (n == 1 || n == 3)
		}}
	case 13: // ids are compared as numbers, so that it does not matter how many digits the query has
		id := r.IntN(8)
		text := fmt.Sprintf(`trace:id %s "%0*X"`, op, 1+r.IntN(40), id)
		if r.IntN(2) == 0 {
			text = fmt.Sprintf(`"%x" %s trace:id`, id, strings.NewReplacer("<", ">", ">", "<").Replace(op))
		}
		return condition{text, func(x view.Row) bool {
			got := p.v.TraceID(x)
			return got != [16]byte{} && cmpInts(op, int64(got[15]), int64(id))
		}}
	case 14: // the name of a field is a text
		return condition{fmt.Sprintf(".user %s status", eq), func(x view.Row) bool {
			a, ok := p.attribute(x, "user")
			return ok && is(a.Text(), "status")
		}}
	}
	return condition{`event:name = "exception" && event.n = 2`, func(x view.Row) bool {
		is := func(y view.Row) bool {
			a, ok := p.e[y].Attribute("n")
			n, _ := a.I64()
			name := p.e[y].Metadata.Name
			if p.e[y].Message.Valid {
				name = p.e[y].Message.Value
			}
			return name == "exception" && ok && n == 2
		}
		if role(x) != view.RoleSpan {
			return is(x)
		}
		for y := range p.e {
			if view.Row(p.e[y].Parent) == x && y > 0 && (role(view.Row(y)) == view.RoleEvent || role(view.Row(y)) == view.RoleLog) && is(view.Row(y)) {
				return true
			}
		}
		return false
	}}
}

// A selection is a spanset and the rows that it selects.
type selection struct {
	text string
	rows map[view.Row]bool
}

// sameTrace reports whether two rows belong to the same trace. A row without a trace is a trace of
// its own.
func (p *plain) sameTrace(a, b view.Row) bool {
	return a == b || p.v.TraceID(a) == p.v.TraceID(b) && p.v.TraceID(a) != [16]byte{}
}

func (p *plain) any(rows map[view.Row]bool, is func(r view.Row) bool) bool {
	for r := range rows {
		if is(r) {
			return true
		}
	}
	return false
}

// selection returns a random spanset.
func (p *plain) selection(r *rand.Rand, depth int) selection {
	if depth == 0 || r.IntN(3) == 0 {
		c := p.condition(r, 2)
		s := selection{"{ " + c.text + " }", make(map[view.Row]bool)}
		for x := range p.v.Rows() {
			if p.selectable(x) && c.is(x) {
				s.rows[x] = true
			}
		}
		return s
	}
	a := p.selection(r, depth-1)
	out := make(map[view.Row]bool)
	if r.IntN(6) == 0 {
		for x := range p.v.Rows() {
			if p.selectable(x) && !p.any(a.rows, func(y view.Row) bool { return p.sameTrace(x, y) }) {
				out[x] = true
			}
		}
		return selection{"!(" + a.text + ")", out}
	}
	b := p.selection(r, depth-1)
	above := func(x, y view.Row) bool { // x is above y
		for y != 0 {
			y = view.Row(p.e[y].Parent)
			if y == x {
				return true
			}
		}
		return false
	}
	up := func(x view.Row) view.Row { return view.Row(p.e[x].Parent) }
	related := map[string]func(x, y view.Row) bool{
		">>": above, "<<": func(x, y view.Row) bool { return above(y, x) },
		">": func(x, y view.Row) bool { return y != 0 && up(y) == x }, "<": func(x, y view.Row) bool { return x != 0 && up(x) == y },
		"~": func(x, y view.Row) bool { return x != y && up(x) == up(y) && p.v.Role(up(x)) == view.RoleSpan },
	}
	ops := []string{"&&", "||", ">>", "<<", ">", "<", "~"}
	op := ops[r.IntN(len(ops))]
	mode := ""
	switch op {
	case "&&":
		for x := range a.rows {
			out[x] = p.any(b.rows, func(y view.Row) bool { return p.sameTrace(x, y) })
		}
		for x := range b.rows {
			out[x] = out[x] || p.any(a.rows, func(y view.Row) bool { return p.sameTrace(x, y) })
		}
	case "||":
		for x := range a.rows {
			out[x] = true
		}
		for x := range b.rows {
			out[x] = true
		}
	default:
		mode = []string{"", "!", "&"}[r.IntN(3)]
		for y := range b.rows {
			has := p.any(a.rows, func(x view.Row) bool { return related[op](x, y) })
			out[y] = has != (mode == "!")
		}
		if mode == "&" {
			for x := range a.rows {
				out[x] = out[x] || p.any(b.rows, func(y view.Row) bool { return related[op](x, y) })
			}
		}
	}
	for x, in := range out {
		if !in {
			delete(out, x)
		}
	}
	return selection{"(" + a.text + " " + mode + op + " " + b.text + ")", out}
}

// TestRunAsBruteForce compares the results of random queries with the results of a simple model.
func TestRunAsBruteForce(t *testing.T) {
	for seed := range hosttest.InCI(15, 60) {
		r := rand.New(rand.NewPCG(uint64(seed), 3))
		v := viewOf(t, shop(r, 150))
		p := plainOf(t, v)
		for range 40 {
			s := p.selection(r, 2)
			q, err := query.Parse(s.text)
			expect.MustIs(t, err, nil, "%v", s.text)
			res, err := q.Run(t.Context(), v, nil)
			must(t, err)
			var want []view.Row
			for x := range s.rows {
				want = append(want, x)
			}
			slices.Sort(want)
			if got := slices.Collect(res.Rows.All()); !slices.Equal(got, want) {
				t.Fatalf("seed %d: %s\n%s\nselects %v, want %v", seed, s.text, query.Tree(q), got, want)
			}
		}
	}
}

// stages returns random stages after a selection, and the rows that they return, in order.
func (p *plain) stages(r *rand.Rand, s selection) (text string, order []view.Row) {
	set := p.v.NewSet()
	for x := range s.rows {
		set.Add(x)
	}
	text, order = s.text, query.InTime(p.v, set)
	for range 1 + r.IntN(4) {
		switch r.IntN(4) {
		case 0:
			c := p.condition(r, 1)
			text += " | { " + c.text + " }"
			order = slices.DeleteFunc(order, func(x view.Row) bool { return !c.is(x) })
		case 1:
			n := r.IntN(20)
			text += fmt.Sprintf(" | limit(%d)", n)
			order = order[:min(n, len(order))]
		case 2:
			text += " | sort(duration desc)"
			set := p.v.NewSet()
			for _, x := range order {
				set.Add(x)
			}
			order = query.InTime(p.v, set)
			slices.SortStableFunc(order, func(x, y view.Row) int {
				a, ok := p.v.Duration(x)
				b, ok2 := p.v.Duration(y)
				switch {
				case ok && ok2:
					return cmp.Compare(b, a)
				case ok:
					return -1
				case ok2:
					return 1
				}
				return 0
			})
		case 3:
			n := r.IntN(4)
			text += fmt.Sprintf(" | count() > %d", n)
			before := slices.Clone(order)
			order = slices.DeleteFunc(order, func(x view.Row) bool {
				same := 0
				for _, y := range before {
					if p.sameTrace(x, y) {
						same++
					}
				}
				return same <= n
			})
		}
	}
	return text, order
}

// TestStagesAsBruteForce compares the rows of random stages, and their order, with a simple model.
func TestStagesAsBruteForce(t *testing.T) {
	for seed := range 20 {
		r := rand.New(rand.NewPCG(uint64(seed), 4))
		p := plainOf(t, viewOf(t, shop(r, 150)))
		for range 40 {
			text, want := p.stages(r, p.selection(r, 1))
			res := querytest.Result(t, p.v, text)
			got := res.Order
			if got == nil {
				got = query.InTime(p.v, res.Rows)
			}
			if !slices.Equal(got, want) || res.Rows.Len() != len(want) {
				t.Fatalf("seed %d: %s\nselects %v, and counts %d, want %v", seed, text, got, res.Rows.Len(), want)
			}
		}
	}
}
