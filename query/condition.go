package query

import (
	"cmp"
	"regexp"
	"slices"
	"strings"
)

// condition parses an expression that can be true or false.
func (p *parser) condition() (expr, error) {
	x, err := p.or()
	if err != nil {
		return nil, err
	}
	return x, p.wantBool(x).orNil()
}

// or parses terms that are joined by && or ||. Both operators have the same precedence and are evaluated from
// left to right. In a filter without braces, && can be omitted.
func (p *parser) or() (expr, error) {
	done, err := p.deeper()
	if err != nil {
		return nil, err
	}
	defer done()
	a, err := p.term()
	if err != nil {
		return nil, err
	}
	first := ""
	for {
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
			p.hint("&& and || without parentheses are read from left to right, as TraceQL does: (a || b) && c", "")
		}
		b, err := p.term()
		if err != nil {
			return nil, err
		}
		if err := cmp.Or(p.wantBool(a), p.wantBool(b)); err != nil {
			return nil, err
		}
		a = &binary{op, a, b}
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

// not parses !x and not x. The precedence of ! is between the precedences of products and sums.
func (p *parser) not() (expr, error) {
	if p.is("!") || p.isWord("not") {
		done, err := p.deeper()
		if err != nil {
			return nil, err
		}
		defer done()
		t, operand := p.next(), p.not
		if t.kind == tokenWord { // the word "not" applies to a whole comparison, as in not a = b
			operand = p.term
		}
		x, err := operand()
		if err != nil {
			return nil, err
		}
		if w, ok := x.(*words); ok && t.kind == tokenWord && p.braces == 0 {
			p.hint("not "+w.text+" selects rows without "+w.text+"; to find the text, write "+quote("not "+w.text), p.with(t.pos, p.tokens[p.at-1].end, quote("not "+w.text)))
		}
		return &unary{op: "!", x: x, pos: t.pos}, p.wantBool(x).orNil()
	}
	return p.product()
}

// compare parses comparisons. All comparison operators have the same precedence.
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
				return nil, p.fail(t, "write =", "== is not an operator").trying(p.with(t.pos, t.end, "="))
			}
			p.next()
		case p.isWord("in"), p.isWord("contains"):
			op = p.next().text
		case p.isWord("not") && p.tokens[p.at+1].kind == tokenWord && p.tokens[p.at+1].text == "in":
			p.next()
			p.next()
			op = "not in"
		case t.kind == tokenWord && otherOperators[t.text] != "":
			return a, p.otherOperator(a, t)
		default:
			return a, nil
		}
		a, err = p.comparison(a, op, t)
		if err != nil {
			return nil, err
		}
	}
}

// comparison parses the right side of an operator.
func (p *parser) comparison(a expr, op string, t *token) (expr, error) {
	c := &compare{a: a}
	c.op = op
	if k := typeOf(a); k == kindString || k == kindNil {
		defer func(was expr) { p.left = was }(p.left)
		p.left = a
	}
	if b := p.peek(); b.kind == tokenEnd || b.kind == tokenMark && strings.Contains(") } && || |", b.text) {
		return nil, p.unfinished(a, t)
	}
	if op == "in" || op == "not in" {
		return p.inList(c, t)
	}
	first := p.at
	b, err := p.sum()
	if err != nil {
		return nil, err
	}
	l, ok := b.(*literal)
	if left, is := a.(*literal); is && !ok && left.value.kind == kindNil && left.word == "" && (op == "=" || op == "!=") {
		a, c.a, l, ok = b, b, left, true // the constant is on the left, as in nil = .x: swap the sides
	}
	if f, is := a.(*field); is && ok && f.kind == kindSpanKind {
		name := cmp.Or(l.word, l.value.s)
		_, isKind := enumNamed(kindSpanKind, name)
		if _, isRole := enumNamed(kindRole, name); isRole && !isKind { // kind = log is entry:role = log
			f.definition = scopedNames["entry:role"]
		}
	}
	if ok && l.value.kind == kindString && p.left != nil && p.at == first+1 && !p.tokens[first].isQuoted(p.text) {
		if end := p.textEnd(first); end > l.end { // more words follow, as in name = GET /orders
			text := quote(p.text[l.pos:end])
			p.ifNone = append(p.ifNone, Hint{"a text of several words needs quotes: " + text, p.with(l.pos, end, text)})
		}
	}
	isPattern := op == "=~" || op == "!~" || op == "contains"
	switch {
	case isPattern && !ok:
		return nil, p.fail(t, "put it in quotes", "%s must be followed by a text", op)
	case isPattern && l.value.kind != kindString:
		return nil, p.failAt(l.pos, "put it in quotes", "%s must be followed by a text", op).trying(p.with(l.pos, l.end, quote(p.text[l.pos:l.end])))
	case isPattern && typeOf(a) != kindString && typeOf(a) != kindNil:
		return nil, p.failAt(t.pos, "", "%s is not a text, so %s cannot be used with it", a, op)
	case op != "=" && op != "!=" && ok && l.value.kind == kindNil:
		return nil, p.failAt(l.pos, "", "nil can be compared only with = and !=")
	case !ok:
		if left, ok := a.(*literal); ok {
			left.value, err = p.fit(b, left)
			if err != nil {
				return nil, err
			}
		}
		c.b = b
		return c, p.comparable(a, b)
	}
	c.right = l
	switch op {
	case "=~", "!~":
		c.value = l.value
		c.regex, err = p.regex("^(?s:"+validText(l.value.s)+")$", l.pos)
		return c, err
	case "contains":
		c.value, c.fold = l.value, strings.ToLower(l.value.s)
		return c, nil
	}
	c.value, err = p.fit(a, l)
	if err != nil {
		return nil, err
	}
	return c, p.comparable(a, &literal{value: c.value, word: l.word, pos: l.pos, end: l.end})
}

// inList parses the list of values after the operator "in".
func (p *parser) inList(c *compare, t *token) (expr, error) {
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
			return nil, p.fail(t, "", "a list can contain only constant values")
		}
		v, err := p.fit(c.a, l)
		if err != nil {
			return nil, err
		}
		if err := p.comparable(c.a, &literal{value: v, pos: l.pos, end: l.end}); err != nil {
			return nil, err
		}
		c.list = append(c.list, v)
		if !p.accept(",") {
			return c, p.want(")")
		}
	}
}

// regex compiles a regular expression.
func (p *parser) regex(s string, pos int) (*regexp.Regexp, error) {
	r, err := regexp.Compile(s)
	if err != nil {
		return nil, p.failAt(pos, "the syntax is that of RE2", "%s", strings.ReplaceAll(err.Error(), s, "the expression"))
	}
	return r, nil
}

// isID reports whether x is the id of a span or of a trace.
func isID(x expr) bool {
	f, ok := x.(*field)
	return ok && f.idSize > 0
}

// wholeID returns an id in the form of the ids of rows: in lower case, with leading zeros.
func wholeID(f *field, id string) string {
	id = strings.ToLower(id)
	if id == "" || strings.Trim(id, "0123456789abcdef") != "" {
		return id
	}
	id = strings.TrimLeft(id, "0")
	return strings.Repeat("0", max(f.idSize-len(id), 0)) + id
}

// fit converts the literal l, with which the query compares x, to a value of the kind of x.
func (p *parser) fit(x expr, l *literal) (Value, error) {
	kind := typeOf(x)
	isEnum := kind.isEnum()
	switch {
	case isEnum && (l.word != "" || l.value.kind == kindString):
		name := cmp.Or(l.word, l.value.s)
		v, ok := enumNamed(kind, name)
		if !ok {
			return v, p.noValue(x, kind, name, l.pos, l.end)
		}
		return v, nil
	case isEnum && l.value.isNumber():
		err := p.failAt(l.pos, "known values are "+strings.Join(enumNames(kind), ", "), "%s is not a number", x)
		if f, ok := x.(*field); ok && kind == kindStatus {
			err.Hint += "; the status of HTTP is .http.response.status_code"
			_ = err.trying(p.with(f.pos, f.end, ".http.response.status_code"))
		}
		return l.value, err
	case isID(x) && (l.value.kind == kindString || l.word != ""):
		return stringValue(wholeID(x.(*field), cmp.Or(l.word, l.value.s))), nil
	case l.word != "" && p.left != nil && p.braces == 0:
		return stringValue(l.word), nil
	case l.word != "" && (kind == kindNil || kind == kindString):
		return l.value, p.failAt(l.pos, "write "+quote(l.word), "%s is a status, kind or level, not a text", l.word).trying(p.with(l.pos, l.end, quote(l.word)))
	case kind == kindTime && l.value.kind == kindString:
		t, err := parseTimestamp(l.value.s)
		if err != nil {
			return l.value, p.failAt(l.pos, `write "2026-11-22T15:04:05Z"`, "%s", err).trying(p.with(l.pos, l.end, `"2026-11-22T15:04:05Z"`))
		}
		return Value{kind: kindTime, n: t.UnixNano()}, nil
	case kind == kindDuration && l.value.kind == kindString:
		err := p.failAt(l.pos, "write it without quotes, as 5ms", "%s is a duration", x)
		return l.value, err.trying(p.with(l.pos, l.end, l.value.s))
	case kind == kindDuration && (l.value.kind == kindInt || l.value.kind == kindFloat || l.value.kind == kindUint) && l.end > l.pos && l.value != intValue(0):
		text := p.text[l.pos:l.end]
		if t := p.peek(); t.kind == tokenWord && isUnit(t.text) {
			return l.value, p.fail(t, "write "+text+t.text, "a duration cannot contain a blank").trying(p.with(l.end, t.pos, ""))
		}
		if p.braces > 0 {
			p.hint(text+" is "+text+" nanoseconds: a duration has a unit, as in "+text+"ms", p.with(l.pos, l.end, text+"ms"))
			return l.value, nil
		}
		return l.value, p.failAt(l.pos, "write "+text+"ms, or "+text+"ns", "%s is a duration, but %s has no unit", x, text).trying(p.with(l.pos, l.end, text+"ms"))
	}
	return l.value, nil
}
