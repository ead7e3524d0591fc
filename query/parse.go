package query

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// A Query is a query that was parsed. It is safe for concurrent use.
type Query struct {
	text  string
	root  *pipeline
	hints []string
}

// String returns the text of the query.
func (q *Query) String() string { return q.text }

// Tree returns the query with brackets around everything that belongs together.
func (q *Query) Tree() string { return q.root.String() }

// Hints returns what may surprise in the query.
func (q *Query) Hints() []string { return slices.Clone(q.hints) }

// Parse parses a query. The empty one selects everything. The error is an [*Error].
func Parse(text string) (*Query, error) {
	tokens, err := lex(text)
	if err != nil {
		return nil, err
	}
	p := &parser{text: text, tokens: tokens}
	root, err := p.query()
	if err != nil {
		return nil, err
	}
	if t := p.peek(); t.kind != tokenEnd {
		return nil, p.fail(t, "", "unexpected %s", describe(t))
	}
	return &Query{text: text, root: root, hints: p.hints}, nil
}

// maxDepth is how deep brackets can be nested.
const maxDepth = 200

type parser struct {
	text   string
	tokens []token
	at     int
	depth  int
	braces int // in how many {…}
	hints  []string
}

func (p *parser) peek() *token { return &p.tokens[p.at] }

func (p *parser) next() *token {
	t := &p.tokens[p.at]
	if t.kind != tokenEnd {
		p.at++
	}
	return t
}

// is reports whether the next token is that mark.
func (p *parser) is(mark string) bool { return p.peek().kind == tokenMark && p.peek().text == mark }

// take takes the next token if it is that mark.
func (p *parser) take(mark string) bool {
	if p.is(mark) {
		p.next()
		return true
	}
	return false
}

func (p *parser) want(mark string) error {
	if !p.take(mark) {
		return p.fail(p.peek(), "", "%s is wanted, not %s", mark, describe(p.peek()))
	}
	return nil
}

func (p *parser) fail(t *token, hint, text string, args ...any) error {
	return &Error{Query: p.text, Pos: t.pos, Text: fmt.Sprintf(text, args...), Hint: hint}
}

func (p *parser) hint(text string) {
	if !slices.Contains(p.hints, text) {
		p.hints = append(p.hints, text)
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

// deeper notes that brackets begin; the function that it returns that they end.
func (p *parser) deeper() (func(), error) {
	if p.depth++; p.depth > maxDepth {
		return nil, p.fail(p.peek(), "", "brackets are nested more than %d deep", maxDepth)
	}
	return func() { p.depth-- }, nil
}

// query parses a whole query, or what is in ( … ).
func (p *parser) query() (*pipeline, error) {
	q := new(pipeline)
	var err error
	if p.isFilter() {
		var x expr
		if t := p.peek(); t.kind != tokenEnd && !p.is("|") && !p.is(")") {
			if x, err = p.or(); err != nil {
				return nil, err
			}
		}
		q.set = &filter{x}
	} else if q.set, err = p.sets(); err != nil {
		return nil, err
	}
	for p.take("|") {
		s, err := p.stage()
		if err != nil {
			return nil, err
		}
		q.stages = append(q.stages, s)
	}
	return q, p.check(q)
}

// check complains of stages that make no sense behind each other.
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
					return &Error{Query: p.text, Pos: other.pos, Text: "a comparison of " + other.fn + "() cannot come behind a table"}
				}
			default:
				return &Error{Query: p.text, Pos: a.pos, Text: a.fn + "() makes a table, behind which only other such functions, sort, topk and limit can come", Hint: "compare it with something to choose traces, as in " + a.text + " > 2"}
			}
		}
	}
	return nil
}

// isFilter reports whether what comes is one filter without braces: there is no { before its
// first | at this level.
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
			if depth--; depth < 0 {
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

// sets parses spansets with && and || between them.
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
			return nil, p.fail(t, "write ({…} && {…}) || {…} or {…} && ({…} || {…})", "&& and || between spansets need parentheses, because readers differ about which comes first")
		}
		b, err := p.structure()
		if err != nil {
			return nil, err
		}
		a = &both{op: t.text, a: a, b: b}
	}
	return a, nil
}

// structure parses a >> b and its like.
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
		if s.b, err = p.set(); err != nil {
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
	case p.take("!"):
		x, err := p.set()
		return &without{x}, err
	case p.take("{"):
		x, err := p.braced()
		return &filter{x}, err
	case p.take("("):
		q, err := p.query()
		if err != nil {
			return nil, err
		}
		if err := p.want(")"); err != nil {
			return nil, err
		}
		for _, s := range q.stages {
			if a, ok := s.(*stageAggregate); ok && a.cond == nil {
				return nil, &Error{Query: p.text, Pos: a.pos, Text: a.fn + "() makes a table, which is no set of rows", Hint: "compare it with something, as in " + a.text + " > 2"}
			}
		}
		return &nested{q}, nil
	}
	return nil, p.fail(t, "", "a filter in {…} is wanted, not %s", describe(t))
}

// braced parses what is behind a {, with the }.
func (p *parser) braced() (x expr, err error) {
	if p.take("}") {
		return nil, nil
	}
	p.braces++
	defer func() { p.braces-- }()
	if x, err = p.or(); err != nil {
		return nil, err
	}
	return x, p.want("}")
}

// or parses terms with && and || between them, which are one level: the first comes first. In a
// filter without braces, terms side by side mean &&.
func (p *parser) or() (expr, error) {
	done, err := p.deeper()
	if err != nil {
		return nil, err
	}
	defer done()
	a, err := p.compare()
	if err != nil {
		return nil, err
	}
	first := ""
	for {
		t := p.peek()
		op := ""
		switch {
		case p.is("&&") || p.isWord("and"):
			op = "&&"
			p.next()
		case p.is("||") || p.isWord("or"):
			op = "||"
			p.next()
		case p.braces == 0 && p.beginsTerm():
			op = "&&"
		default:
			return a, nil
		}
		if first == "" {
			first = op
		}
		if op != first {
			p.hint("&& and || without parentheses are read from left to right, as TraceQL does: (a || b) && c")
		}
		b, err := p.compare()
		if err != nil {
			return nil, err
		}
		a = &binary{op: op, a: a, b: b, pos: t.pos}
	}
}

func (p *parser) isWord(word string) bool {
	return p.peek().kind == tokenWord && p.peek().text == word
}

// beginsTerm reports whether a term begins here.
func (p *parser) beginsTerm() bool {
	switch t := p.peek(); t.kind {
	case tokenEnd:
		return false
	case tokenMark:
		return t.text == "(" || t.text == "!" || t.text == "-"
	}
	return true
}

var comparisons = []string{"=", "==", "!=", "<", "<=", ">", ">=", "=~", "!~"}

// compare parses comparisons, which are one level, too.
func (p *parser) compare() (expr, error) {
	a, err := p.sum()
	if err != nil {
		return nil, err
	}
	for {
		t := p.peek()
		op := ""
		switch {
		case t.kind == tokenMark && slices.Contains(comparisons, t.text):
			op = t.text
			if op == "==" {
				return nil, p.fail(t, "write =", "== is no operator")
			}
			p.next()
		case p.isWord("in"), p.isWord("contains"):
			op = p.next().text
		case p.isWord("not") && p.tokens[p.at+1].kind == tokenWord && p.tokens[p.at+1].text == "in":
			p.next()
			p.next()
			op = "not in"
		default:
			return a, nil
		}
		if a, err = p.comparison(a, op, t); err != nil {
			return nil, err
		}
	}
}

// comparison parses the right side of an operator.
func (p *parser) comparison(a expr, op string, t *token) (expr, error) {
	c := &compare{a: a, pos: t.pos}
	c.op = op
	if op == "in" || op == "not in" {
		if err := p.want("("); err != nil {
			return nil, err
		}
		for {
			b, err := p.sum()
			if err != nil {
				return nil, err
			}
			l, ok := b.(*literal)
			if !ok {
				return nil, p.fail(t, "", "a list has only values")
			}
			v, err := p.fit(a, l)
			if err != nil {
				return nil, err
			}
			if c.list = append(c.list, v); !p.take(",") {
				return c, p.want(")")
			}
		}
	}
	b, err := p.sum()
	if err != nil {
		return nil, err
	}
	l, ok := b.(*literal)
	if !ok && op != "=~" && op != "!~" && op != "contains" {
		if left, ok := a.(*literal); ok {
			if left.value, err = p.fit(b, left); err != nil {
				return nil, err
			}
		}
		c.b = b
		return c, nil
	}
	if !ok || op != "=" && op != "!=" && l.value.kind == KindNil {
		return nil, p.fail(t, "", "%s wants a text", op)
	}
	switch op {
	case "=~", "!~", "contains":
		if l.value.kind != KindString {
			return nil, &Error{Query: p.text, Pos: l.pos, Text: op + " wants a text", Hint: "put it in quotes"}
		}
		if c.value = l.value; op == "contains" {
			c.fold = strings.ToLower(l.value.s)
			return c, nil
		}
		c.regex, err = p.regex("^(?:"+l.value.s+")$", l.pos)
		return c, err
	}
	c.value, err = p.fit(a, l)
	return c, err
}

// regex compiles a regular expression.
func (p *parser) regex(s string, pos int) (*regexp.Regexp, error) {
	r, err := regexp.Compile(s)
	if err != nil {
		return nil, &Error{Query: p.text, Pos: pos, Text: strings.ReplaceAll(err.Error(), s, "the expression"), Hint: "the syntax is that of RE2"}
	}
	return r, nil
}

// fit returns the value of a literal that is compared with x.
func (p *parser) fit(x expr, l *literal) (Value, error) {
	f, isField := x.(*field)
	kind := KindNil
	if isField {
		kind = f.kind.enumOf()
	}
	switch {
	case kind != KindNil && (l.word != "" || l.value.kind == KindString):
		name := l.word
		if name == "" {
			name = l.value.s
		}
		v, ok := enumNamed(kind, name)
		if !ok {
			return v, &Error{Query: p.text, Pos: l.pos, Text: f.text + " has no value " + name, Hint: "known are " + enumNames(kind)}
		}
		return v, nil
	case kind != KindNil && (l.value.kind == KindInt || l.value.kind == KindUint || l.value.kind == KindFloat):
		hint := "known are " + enumNames(kind)
		if kind == KindStatus {
			hint += "; that of HTTP is .http.response.status_code"
		}
		return l.value, &Error{Query: p.text, Pos: l.pos, Text: f.text + " is no number", Hint: hint}
	case l.word != "" && isField && (f.kind <= fieldOfScope || f.kind == fieldName || f.kind == fieldMessage):
		return l.value, &Error{Query: p.text, Pos: l.pos, Text: l.word + " is a status, kind or level, and no text", Hint: "write " + quote(l.word)}
	case isField && f.kind == fieldStart && l.value.kind == KindString:
		t, err := parseTimestamp(l.value.s)
		if err != nil {
			return l.value, &Error{Query: p.text, Pos: l.pos, Text: err.Error(), Hint: `write "2026-11-22T15:04:05Z"`}
		}
		return Value{kind: KindTime, n: t.UnixNano()}, nil
	case isField && (f.kind == fieldDuration || f.kind == fieldSelf || f.kind == fieldTraceDuration || f.kind == fieldEventSince) && l.value.kind == KindString:
		return l.value, &Error{Query: p.text, Pos: l.pos, Text: f.text + " is a number", Hint: "write it without quotes, as 5ms"}
	}
	return l.value, nil
}

func (p *parser) sum() (expr, error) {
	a, err := p.not()
	for err == nil && (p.is("+") || p.is("-") && (p.braces > 0 || !p.peek().space || p.tokens[p.at+1].space)) {
		t := p.next()
		var b expr
		if b, err = p.not(); err == nil {
			a, err = p.arithmetic(t, a, b)
		}
	}
	return a, err
}

// not parses !x, which binds less than a product and more than a sum.
func (p *parser) not() (expr, error) {
	if p.is("!") || p.isWord("not") {
		done, err := p.deeper()
		if err != nil {
			return nil, err
		}
		defer done()
		t := p.next()
		if t.kind == tokenWord { // not a = b is the whole comparison
			x, err := p.compare()
			return &unary{op: "!", x: x, pos: t.pos}, err
		}
		x, err := p.not()
		return &unary{op: "!", x: x, pos: t.pos}, err
	}
	return p.product()
}

func (p *parser) product() (expr, error) {
	a, err := p.power()
	for err == nil && (p.is("*") || p.is("/") || p.is("%")) {
		t := p.next()
		var b expr
		if b, err = p.power(); err == nil {
			a, err = p.arithmetic(t, a, b)
		}
	}
	return a, err
}

func (p *parser) power() (expr, error) {
	done, err := p.deeper()
	if err != nil {
		return nil, err
	}
	defer done()
	if p.is("-") {
		t := p.next()
		x, err := p.power()
		if err != nil {
			return nil, err
		}
		if l, ok := x.(*literal); ok && l.value.isNumber() {
			return &literal{value: negative(l.value), pos: t.pos}, nil
		}
		return &unary{op: "-", x: x, pos: t.pos}, nil
	}
	a, err := p.primary()
	if err != nil || !p.is("^") {
		return a, err
	}
	t := p.next()
	b, err := p.power()
	if err != nil {
		return nil, err
	}
	return p.arithmetic(t, a, b)
}

// arithmetic returns a op b, which is computed at once if both are numbers.
func (p *parser) arithmetic(t *token, a, b expr) (expr, error) {
	x := &binary{op: t.text, a: a, b: b, pos: t.pos}
	l, ok := a.(*literal)
	m, ok2 := b.(*literal)
	if !ok || !ok2 {
		return x, nil
	}
	v := calculate(t.text, l.value, m.value)
	if v.kind == KindNil {
		return nil, p.fail(t, "", "%s %s %s has no value", l, t.text, m)
	}
	return &literal{value: v, pos: l.pos}, nil
}

// primary parses a value, a field, free text or what is in parentheses.
func (p *parser) primary() (expr, error) {
	t := p.peek()
	switch t.kind {
	case tokenMark:
		if !p.take("(") {
			return nil, p.fail(t, "", "a value is wanted, not %s", describe(t))
		}
		x, err := p.or()
		if err != nil {
			return nil, err
		}
		return x, p.want(")")
	case tokenNumber, tokenDuration:
		p.next()
		return &literal{value: t.value, pos: t.pos}, nil
	case tokenString:
		p.next()
		isPath := p.text[t.pos] == '/'
		if isPath && p.compared(p.at-1) && p.operatorAt(p.at) {
			return nil, p.fail(t, "to divide, write a blank behind the slash: / "+t.text[1:], "%s is a text", t.text)
		}
		if p.braces == 0 && !p.compared(p.at-1) {
			if isPath {
				p.hint(t.text + " is a text here; a regular expression ends with a slash")
			}
			return p.freeText(t)
		}
		return &literal{value: stringValue(t.text), pos: t.pos}, nil
	case tokenRegex:
		if p.next(); p.braces > 0 {
			return nil, p.fail(t, "write .x =~ \"…\"", "a regular expression alone is for filters without braces")
		}
		return p.freeText(t)
	case tokenWord:
		return p.word()
	}
	return nil, p.fail(t, "", "a value is wanted, not %s", describe(t))
}

// compared reports whether an operator is beside the token at i.
func (p *parser) compared(i int) bool {
	before, behind := i-1, i+1
	for before >= 0 && p.tokens[before].text == "(" && p.tokens[behind].text == ")" {
		before, behind = before-1, behind+1
	}
	return p.operatorAt(behind) || before >= 0 && p.operatorAt(before)
}

// operatorAt reports whether the token at i is an operator between two values.
func (p *parser) operatorAt(i int) bool {
	t, next := &p.tokens[i], &p.tokens[min(i+1, len(p.tokens)-1)]
	switch t.kind {
	case tokenMark:
		return slices.Contains(comparisons, t.text) || strings.Contains("+*/%^,", t.text) || t.text == "-" && t.space && next.space
	case tokenWord:
		return t.text == "in" || t.text == "contains" || t.text == "not" && next.text == "in"
	}
	return false
}

// isUnit reports whether a word is what stands behind the number of a duration.
func isUnit(word string) bool {
	_, err := parseDuration("1" + word)
	return err == nil
}

// word parses a field, a named value or a word of free text.
func (p *parser) word() (expr, error) {
	t := p.next()
	at := p.at - 1
	switch t.text {
	case "true", "false":
		return &literal{value: boolValue(t.text == "true"), pos: t.pos}, nil
	case "nil":
		return &literal{pos: t.pos}, nil
	case "minInt":
		return &literal{value: intValue(-1 << 63), pos: t.pos}, nil
	case "maxInt":
		return &literal{value: intValue(1<<63 - 1), pos: t.pos}, nil
	case "and", "or", "in", "not", "contains":
		return nil, p.fail(t, "as a text, write "+quote(t.text), "%s is an operator, and there is nothing for it to work on", t.text)
	}
	if p.is("(") && !p.peek().space {
		return nil, p.fail(t, "", "%s() is no part of a filter", t.text)
	}
	compared := p.compared(at)
	values, isEnum := enumWords[t.text]
	f, isField := fieldNamed(t, p.braces > 0)
	switch {
	case isField && (compared || p.braces > 0 || len(t.parts) > 1):
		return f, nil
	case isEnum && (compared || p.braces > 0):
		return &literal{value: values[0], word: t.text, pos: t.pos}, nil
	case isEnum:
		var hints []string
		for _, v := range values {
			name := map[Kind]string{KindLevel: "level", KindStatus: "status", KindSpanKind: "kind"}[v.kind]
			hints = append(hints, "; or "+name+" = "+t.text)
		}
		slices.Sort(hints)
		return nil, p.fail(t, "as a text, write "+quote(t.text)+strings.Join(hints, ""), "%s is a name of a value", t.text)
	case p.braces == 0 && !compared && len(t.parts) == 1:
		if before := &p.tokens[max(0, at-1)]; before.kind == tokenNumber && isUnit(t.text) {
			return nil, p.fail(t, "write "+p.text[before.pos:before.end]+t.text, "a duration has no blank in it")
		}
		return p.freeText(t)
	}
	// A name that is none.
	if len(t.parts) == 1 {
		hint := "did you mean ." + t.text
		if s := similar(t.text); s != "" {
			hint += ", or " + s
		}
		if at > 0 && p.tokens[at-1].kind == tokenMark && slices.Contains(comparisons, p.tokens[at-1].text) {
			hint = "a text needs quotes: " + quote(t.text)
			if before := &p.tokens[max(0, at-2)]; before.kind == tokenWord {
				if f, ok := fieldNamed(before, p.braces > 0); ok && f.kind.enumOf() != KindNil {
					return nil, p.fail(t, "known are "+enumNames(f.kind.enumOf()), "%s has no value %s", f.text, t.text)
				}
			}
		}
		hint += "?"
		return nil, p.fail(t, hint, "%s is no name that is known", t.text)
	}
	return nil, p.fail(t, "scopes are span., resource., event., link., instrumentation., log. and parent., or none", "%s. is no scope", t.parts[0])
}

// freeText returns the expression that looks for a text.
func (p *parser) freeText(t *token) (expr, error) {
	w := &words{text: p.text[t.pos:t.end], pos: t.pos}
	if t.kind != tokenRegex {
		w.fold = strings.ToLower(t.text)
		return w, nil
	}
	var err error
	w.regex, err = p.regex("(?i:"+t.text+")", t.pos)
	return w, err
}
