package query

import (
	"fmt"
	"slices"
	"strings"
)

// A Query is a parsed query. It is safe for concurrent use.
type Query struct {
	text   string
	root   *pipeline
	hints  []Hint
	ifNone []Hint // hints for a result without rows
}

// A Hint explains something that may surprise the user in a query or its result.
type Hint struct {
	Text  string `json:"text"`            // for people
	Query string `json:"query,omitempty"` // a complete query that the user may have meant, or empty
}

// String returns the text of the query.
func (q *Query) String() string { return q.text }

// Parse parses a query. The empty query selects everything. The error is an [*Error].
func Parse(text string) (*Query, error) {
	q, err := parse(text)
	if err != nil {
		err.findTry()
		return nil, err
	}
	return q, nil
}

func parse(text string) (*Query, *Error) {
	tokens, err := lex(text)
	if err != nil {
		return nil, asError(err)
	}
	p := &parser{text: text, tokens: tokens}
	root, err := p.query()
	if t := p.peek(); err == nil && t.kind != tokenEnd {
		hint := ""
		if strings.Contains("+-*/^%", t.text) && t.kind == tokenMark {
			hint = "an aggregate must be compared with a number"
		}
		err = p.fail(t, hint, "unexpected %s", describe(t))
	}
	if err != nil {
		if e := p.metrics(); e != nil {
			err = e
		}
		return nil, asError(err)
	}
	return &Query{text: text, root: root, hints: p.hints, ifNone: p.ifNone}, nil
}

// maxDepth is the maximum nesting depth of a query.
const maxDepth = 200

type parser struct {
	text   string
	tokens []token
	at     int
	depth  int
	braces int // the number of open braces
	hints  []Hint
	ifNone []Hint // hints for a result without rows
	left   expr   // while the right side of a comparison is parsed: the left side, if a word on the right side may be a text
}

func (p *parser) peek() *token { return &p.tokens[p.at] }

func (p *parser) next() *token {
	t := &p.tokens[p.at]
	if t.kind != tokenEnd {
		p.at++
	}
	return t
}

// is reports whether the next token is the given mark.
func (p *parser) is(mark string) bool { return p.peek().is(mark) }

// accept skips the next token if it is the given mark. It reports whether it skipped the token.
func (p *parser) accept(mark string) bool {
	if p.is(mark) {
		p.next()
		return true
	}
	return false
}

func (p *parser) want(mark string) error {
	if !p.accept(mark) {
		return p.fail(p.peek(), "", "expected %s, found %s", mark, describe(p.peek()))
	}
	return nil
}

func (p *parser) fail(t *token, hint, text string, args ...any) *Error {
	return p.failAt(t.pos, hint, text, args...)
}

func (p *parser) failAt(pos int, hint, text string, args ...any) *Error {
	return &Error{Query: p.text, Pos: pos, Text: fmt.Sprintf(text, args...), Hint: hint}
}

// with returns the query with text in place of the bytes [from, to).
func (p *parser) with(from, to int, text string) string { return p.text[:from] + text + p.text[to:] }

func (p *parser) hint(text, query string) {
	if h := (Hint{text, query}); !slices.Contains(p.hints, h) {
		p.hints = append(p.hints, h)
	}
}

func describe(t *token) string {
	switch t.kind {
	case tokenEnd:
		return "the end"
	case tokenString:
		return "the text " + quote(t.text)
	case tokenRegex:
		return "/" + t.text + "/"
	}
	return t.text
}

// deeper increases the nesting depth. The returned function decreases it again.
func (p *parser) deeper() (func(), error) {
	p.depth++
	if p.depth > maxDepth {
		return nil, p.fail(p.peek(), "", "brackets are nested more than %d deep", maxDepth)
	}
	return func() { p.depth-- }, nil
}

// query parses a whole query, or a query inside of parentheses.
func (p *parser) query() (*pipeline, error) {
	q := new(pipeline)
	var err error
	if p.isFilter() {
		var x expr
		if t := p.peek(); t.kind != tokenEnd && !p.is("|") && !p.is(")") {
			x, err = p.condition()
			if err != nil {
				return nil, err
			}
		}
		q.set = &filter{x}
	} else {
		q.set, err = p.sets()
		if err != nil {
			return nil, err
		}
	}
	for p.accept("|") {
		s, err := p.stage()
		if err != nil {
			return nil, err
		}
		q.stages = append(q.stages, s)
	}
	return q, p.check(q)
}

// check returns an error if a stage cannot follow an earlier one.
func (p *parser) check(q *pipeline) error {
	for i, s := range q.stages {
		a, ok := s.(*stageAggregate)
		if !ok || a.cond != nil {
			continue
		}
		for _, later := range q.stages[i+1:] {
			switch later := later.(type) {
			case *stageAggregate, *stageSort, *stageLimit, *stageTop:
				if other, ok := later.(*stageAggregate); ok && other.cond != nil {
					return p.failAt(other.pos, "", "%s() with a comparison cannot follow a function that computes a table", other.fn)
				}
			default:
				return p.failAt(a.pos, "to choose traces, compare the result, as in "+a.text+" > 2", "%s() computes a table: only sort, topk, limit and functions that compute tables can follow", a.fn)
			}
		}
	}
	return nil
}

// isFilter reports whether the next tokens are a filter without braces: no { precedes the first | that is outside
// of parentheses.
func (p *parser) isFilter() bool {
	depth := 0
	for _, t := range p.tokens[p.at:] {
		if t.kind != tokenMark {
			continue
		}
		switch t.text {
		case "{":
			return false
		case "(":
			depth++
		case ")":
			depth--
			if depth < 0 {
				return true
			}
		case "|":
			if depth == 0 {
				return true
			}
		}
	}
	return true
}

// sets parses filters and other spansets that are joined by && or ||.
func (p *parser) sets() (spanset, error) {
	a, err := p.structure()
	if err != nil {
		return nil, err
	}
	first := ""
	for p.is("&&") || p.is("||") {
		t := p.next()
		if first == "" {
			first = t.text
		}
		if t.text != first {
			return nil, p.fail(t, "write ({…} && {…}) || {…} or {…} && ({…} || {…})", "&& and || between spansets need parentheses, because programs differ in which one they evaluate first")
		}
		b, err := p.structure()
		if err != nil {
			return nil, err
		}
		a = &both{op: t.text, a: a, b: b}
	}
	return a, nil
}

// structure parses structural operators, such as a >> b.
func (p *parser) structure() (spanset, error) {
	a, err := p.set()
	if err != nil {
		return nil, err
	}
	for p.peek().kind == tokenMark {
		s := &structural{a: a, op: p.peek().text}
		s.op, s.negate = strings.CutPrefix(s.op, "!")
		if !s.negate {
			s.op, s.union = strings.CutPrefix(s.op, "&")
		}
		switch s.op {
		case ">>", ">", "<<", "<", "~":
		default:
			return a, nil
		}
		p.next()
		s.b, err = p.set()
		if err != nil {
			return nil, err
		}
		a = s
	}
	return a, nil
}

// set parses {…}, !{…} or (…).
func (p *parser) set() (spanset, error) {
	done, err := p.deeper()
	if err != nil {
		return nil, err
	}
	defer done()
	t := p.peek()
	switch {
	case p.accept("!"):
		x, err := p.set()
		return &without{x}, err
	case p.accept("{"):
		x, err := p.braced()
		return &filter{x}, err
	case p.accept("("):
		q, err := p.query()
		if err != nil {
			return nil, err
		}
		if err := p.want(")"); err != nil {
			return nil, err
		}
		for _, s := range q.stages {
			if a, ok := s.(*stageAggregate); ok && a.cond == nil {
				return nil, p.failAt(a.pos, "compare the result, as in "+a.text+" > 2", "%s() computes a table, not a set of rows", a.fn)
			}
		}
		return &nested{q}, nil
	}
	return nil, p.noSet(t)
}

// braced parses a filter after its {, including the }.
func (p *parser) braced() (x expr, err error) {
	if p.accept("}") {
		return nil, nil
	}
	p.braces++
	defer func() { p.braces-- }()
	x, err = p.condition()
	if err != nil {
		return nil, err
	}
	return x, p.want("}")
}
