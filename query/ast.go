package query

import (
	"fmt"
	"regexp"
	"strings"
	"unicode/utf8"
)

// The parts of a query that compute a value for a row.
type (
	// An expr is one of the types below.
	expr interface{ String() string }

	// literal is a constant in the query.
	literal struct {
		value    Value
		word     string // for an enum or level, the word in the query
		pos, end int
	}

	// field is a column or an attribute of a row, or a property of its trace.
	field struct {
		*definition

		name   string // the name of an attribute
		parent bool   // the field belongs to the row's parent
		text   string // as it was written
		pos    int
		end    int
	}

	// unary is !x or -x.
	unary struct {
		op  string
		x   expr
		pos int
	}

	// binary is a op b: arithmetic, && and ||, and bucket(a, b).
	binary struct {
		op   string
		a, b expr
	}

	// compare compares a with a constant, or with b.
	compare struct {
		comparison

		a, b  expr     // b is nil if the right side is constant; comparison then has the constant
		right *literal // the right side as written; nil if it is not a single literal
	}

	// words is a search for free text.
	words struct {
		fold  string // the text in lower case
		regex *regexp.Regexp
		text  string
		pos   int
	}
)

// The parts of a query that select rows.
type (
	// A spanset is one of the types below.
	spanset any

	// filter is {…}.
	filter struct{ x expr } // a nil x selects everything

	// without is !{…}: all rows of the traces in which x selects no row.
	without struct{ x spanset }

	// both is a && b or a || b.
	both struct {
		op   string
		a, b spanset
	}

	// structural is a >> b, or another structural operator.
	structural struct {
		op     string // ">>", ">", "<<", "<" or "~"
		negate bool
		union  bool
		a, b   spanset
	}

	// nested is (…|…).
	nested struct{ p *pipeline }
)

// A pipeline is a spanset and the stages that process its rows.
type pipeline struct {
	set    spanset
	stages []stage
}

// A stage is one of the types below.
type stage any

type (
	stageFilter   struct{ x expr }
	stageBy       struct{ list []expr }
	stageCoalesce struct{}
	stageSelect   struct{ list []expr }
	stageTop      struct {
		n      int64
		x      expr
		bottom bool
	}
	stageSort struct {
		x    expr
		desc bool
	}
	stageLimit struct{ n int64 }

	// stageAggregate computes a table from rows. If it has a comparison, it selects the rows of
	// some traces instead.
	stageAggregate struct {
		fn   string
		x    expr // nil for count()
		args []float64
		set  spanset // the argument of compare
		cond *comparison
		by   []expr
		pos  int
		text string // the name of the column
	}
)

func (l *literal) String() string {
	switch {
	case l.word != "":
		return l.word
	case l.value.kind == kindString:
		return quote(l.value.s)
	}
	return l.value.String()
}

var escapes = strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\n", `\n`, "\t", `\t`, "\r", `\r`)

// quote returns a text in the syntax of queries.
func quote(s string) string { return `"` + validText(escapes.Replace(s)) + `"` }

// validText writes each byte of s that is not UTF-8 as \x and two digits.
func validText(s string) string {
	var b []byte
	for i, r := range s {
		if r == utf8.RuneError && !strings.HasPrefix(s[i:], string(r)) {
			b = fmt.Appendf(b, `\x%02x`, s[i])
		} else {
			b = utf8.AppendRune(b, r)
		}
	}
	return string(b)
}

func (f *field) String() string { return f.text }
func (u *unary) String() string { return "(" + u.op + u.x.String() + ")" }
func (b *binary) String() string {
	if b.op == "bucket" {
		return "bucket(" + b.a.String() + ", " + b.b.String() + ")"
	}
	return "(" + b.a.String() + " " + b.op + " " + b.b.String() + ")"
}

func (c *compare) String() string {
	right := ""
	switch {
	case c.b != nil:
		right = c.b.String()
	case c.regex != nil:
		right = quote(c.value.s)
	case c.list != nil:
		var all []string
		for _, v := range c.list {
			all = append(all, (&literal{value: v}).String())
		}
		right = "(" + strings.Join(all, ", ") + ")"
	default:
		right = (&literal{value: c.value}).String()
	}
	return "(" + c.a.String() + " " + c.op + " " + right + ")"
}

func (w *words) String() string { return w.text }

func list(all []expr) string {
	texts := make([]string, len(all))
	for i, x := range all {
		texts[i] = x.String()
	}
	return strings.Join(texts, ", ")
}
