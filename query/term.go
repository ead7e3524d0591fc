package query

import (
	"slices"
	"strings"
)

// primary parses a value, a field, free text or an expression in parentheses.
func (p *parser) primary() (expr, error) {
	t := p.peek()
	switch t.kind {
	case tokenMark:
		if !p.accept("(") {
			return nil, p.fail(t, "", "expected a value, found %s", describe(t))
		}
		x, err := p.or()
		if err != nil {
			return nil, err
		}
		return x, p.want(")")
	case tokenNumber, tokenDuration:
		p.next()
		return &literal{value: t.value, pos: t.pos, end: t.end}, nil
	case tokenString:
		p.next()
		isPath := p.text[t.pos] == '/'
		if isPath && p.compared(p.at-1, p.at-1) && p.operatorAt(p.at) {
			return nil, p.fail(t, "to divide, write a blank after the slash: / "+t.text[1:], "%s is a text", t.text).trying(p.with(t.pos, t.pos+1, "/ "))
		}
		if p.braces == 0 && !p.compared(p.at-1, p.at-1) {
			if isPath && len(p.ifNone) == 0 {
				p.ifNone = append(p.ifNone, Hint{Text: t.text + " is a text here; a regular expression ends with a slash"})
			}
			return p.freeText(t)
		}
		return &literal{value: stringValue(t.text), pos: t.pos, end: t.end}, nil
	case tokenRegex:
		p.next()
		if p.braces > 0 {
			return nil, p.fail(t, "write .x =~ \"…\"", "a regular expression without a field is allowed only in filters without braces")
		}
		return p.freeText(t)
	case tokenWord:
		return p.word()
	}
	return nil, p.fail(t, "", "expected a value, found %s", describe(t))
}

// compared reports whether an operator precedes or follows the tokens from first to last, or the parentheses
// around them.
func (p *parser) compared(first, last int) bool {
	before, behind := first-1, last+1
	for before >= 0 && p.tokens[before].text == "(" && p.tokens[behind].text == ")" {
		before, behind = before-1, behind+1
	}
	return p.operatorAt(behind) || before >= 0 && p.operatorAt(before)
}

// operatorAt reports whether the token at i is an operator between two values.
func (p *parser) operatorAt(i int) bool {
	t, next := &p.tokens[i], &p.tokens[min(i+1, len(p.tokens)-1)]
	return p.comparisonAt(i) || t.kind == tokenMark && (strings.Contains("+*/%^,", t.text) || t.text == "-" && t.space && next.space)
}

// comparisonAt reports whether the token at i compares two values.
func (p *parser) comparisonAt(i int) bool {
	switch t := &p.tokens[i]; t.kind {
	case tokenMark:
		return slices.Contains(comparisons, t.text)
	case tokenWord:
		return t.text == "in" || t.text == "contains" || t.text == "not" && p.tokens[i+1].text == "in"
	}
	return false
}

// isBareAttribute reports whether the word t, which is p.tokens[at], is the name of an attribute without its
// dot, as in user = eve. The word must be compared, and must not look like a misspelled field or scope.
func (p *parser) isBareAttribute(t *token, at int) bool {
	if !p.comparisonAt(at+1) || at > 0 && p.operatorAt(at-1) || strings.Contains(t.parts[0], ":") || isNestedSet(t.text) {
		return false
	}
	known := scopes
	if len(t.parts) == 1 {
		known = bareNames
	}
	for name := range known {
		if name != "" && isTypo(t.parts[0], name) {
			return false
		}
	}
	return len(t.parts) > 1 || braceNames[t.text] == nil
}

// isUnit reports whether a word is a unit of durations.
func isUnit(word string) bool {
	_, err := parseDuration("1" + word)
	return err == nil
}

// word parses a field, a named value or a word of free text.
func (p *parser) word() (expr, error) {
	t := p.next()
	at := p.at - 1
	constant := func(v Value) (expr, error) { return &literal{value: v, pos: t.pos, end: t.end}, nil }
	switch t.text {
	case "true", "false":
		return constant(boolValue(t.text == "true"))
	case "nil":
		return constant(Value{})
	case "minInt":
		return constant(intValue(-1 << 63))
	case "maxInt":
		return constant(intValue(1<<63 - 1))
	case "and", "or", "in", "not", "contains":
		err := p.fail(t, "as a text, write "+quote(t.text), "%s is an operator, but has no operand", t.text)
		return nil, err.trying(p.with(t.pos, t.end, quote(t.text)))
	}
	if p.is("(") && !p.peek().space {
		if t.text == "bucket" {
			return p.bucket(t)
		}
		return nil, p.noCall(t)
	}
	compared := p.compared(at, at)
	values := named(t.text)
	f, isField := fieldNamed(t, p.braces > 0)
	switch {
	case isField && p.isText(f, at):
		return constant(stringValue(t.text))
	case isField && (compared || p.braces > 0 || len(t.parts) > 1):
		return f, nil
	case len(values) > 0 && (compared || p.braces > 0):
		return &literal{value: values[0], word: t.text, pos: t.pos, end: t.end}, nil
	case len(values) > 0:
		return p.namedOrText(t, values)
	case p.left != nil && (p.braces == 0 || p.textEnd(at) == t.end || p.is(",")):
		return constant(stringValue(t.text))
	case p.braces == 0 && !compared:
		return p.freeText(t)
	case p.isBareAttribute(t, at):
		return &field{definition: scopes[""], name: t.text, text: "." + attributeName(t.text), pos: t.pos, end: t.end}, nil
	}
	return nil, p.noName(t, at)
}

// isText reports whether the name of the field f, which is p.tokens[at], is a text: it stands alone on the right side
// of a comparison with an attribute or a text, as in .phase = start. Names that only TraceQL has remain fields. If
// the query finds nothing, a hint offers the other meaning.
func (p *parser) isText(f *field, at int) bool {
	_, ofField := p.left.(*field)
	if !ofField || strings.Contains(f.text, ":") || f.user || !p.is(",") && p.operatorAt(p.at) {
		return false
	}
	if before := &p.tokens[at-1]; !p.comparisonAt(at-1) && !before.is(",") && (!before.is("(") || p.tokens[at-2].text != "in") {
		return false
	}
	is, other := "a text here; for the field, write ", f.scopedName()
	isText := bareNames[f.text] != nil
	if !isText {
		is, other = "a field here; for the text, write ", quote(f.text)
	}
	p.ifNone = append(p.ifNone, Hint{f.text + " is " + is + other, p.with(f.pos, f.end, other)})
	return isText
}

// bucket parses bucket(a, b), such as bucket(start, 1s). Its value is the largest multiple of b
// that is not greater than a.
func (p *parser) bucket(t *token) (expr, error) {
	p.next()
	p.braces++ // here names are fields, as in braces
	defer func() { p.braces-- }()
	a, err := p.sum()
	if err != nil {
		return nil, err
	}
	if err := p.wantNumber(a, t); err != nil {
		return nil, err
	}
	if !p.accept(",") {
		return nil, p.fail(p.peek(), "as in bucket("+a.String()+", 1s)", "bucket() needs a size").trying(p.with(p.peek().pos, p.peek().pos, ", 1s"))
	}
	size := p.peek()
	b, err := p.sum()
	if err != nil {
		return nil, err
	}
	l, ok := b.(*literal)
	if ok {
		n, isNumber := l.value.number()
		ok = isNumber && n > 0
	}
	if !ok {
		return nil, p.fail(size, "as in bucket("+a.String()+", 1s)", "the size of a bucket must be a number above 0")
	}
	if k := typeOf(a); k == kindTime || k == kindDuration {
		l.value, err = p.fit(&literal{value: durationValue(1)}, l)
		if err != nil {
			return nil, err
		}
	}
	return &binary{"bucket", a, b}, p.want(")")
}

// namedOrText returns the expression for a word without a comparison that is the name of a level, status or
// kind, such as error. It matches rows with this level, status or kind, and rows that contain the text.
func (p *parser) namedOrText(t *token, values []Value) (expr, error) {
	x, err := p.freeText(t)
	if err != nil {
		return nil, err
	}
	for _, v := range values {
		if v.kind == kindRole { // users do not search for roles by name alone
			continue
		}
		f := enumField(v.kind)
		f.pos, f.end = t.pos, t.end
		c := &compare{comparison: comparison{op: "=", value: v}, a: f}
		x = &binary{"||", c, x}
	}
	return x, nil
}

// freeText returns the expression that searches for a text.
func (p *parser) freeText(t *token) (expr, error) {
	w := &words{text: p.text[t.pos:t.end], pos: t.pos}
	if t.kind != tokenRegex {
		w.fold = strings.ToLower(t.text)
		return w, nil
	}
	var err error
	w.regex, err = p.regex("(?is:"+t.text+")", t.pos)
	return w, err
}

// term parses a comparison, or a value that is not compared. In a filter without braces, a number
// that is not compared is free text.
func (p *parser) term() (expr, error) {
	first := p.at
	x, err := p.compare()
	if err != nil || p.braces > 0 {
		return x, err
	}
	if l, ok := x.(*literal); ok && l.value.isNumber() && !p.compared(first, p.at-1) {
		pos, end := p.tokens[first].pos, p.tokens[p.at-1].end
		return p.freeText(&token{kind: tokenNumber, text: p.text[pos:end], pos: pos, end: end})
	}
	return x, nil
}
