package query

import (
	"slices"
	"strings"
)

// stage parses a stage. The parser is after the |.
func (p *parser) stage() (stage, error) {
	t := p.peek()
	if p.accept("{") {
		x, err := p.braced()
		return &stageFilter{x}, err
	}
	if t.kind != tokenWord {
		return nil, p.fail(t, "", "expected a function, found %s", describe(t))
	}
	p.next()
	p.braces++ // here names are fields, as in braces
	defer func() { p.braces-- }()
	if functions[t.text].instead != "" {
		return nil, p.refuse(t)
	}
	switch t.text {
	case "by":
		l, err := p.list()
		return &stageBy{l}, err
	case "select":
		l, err := p.list()
		return &stageSelect{l}, err
	case "coalesce":
		if err := p.want("("); err != nil {
			return nil, err
		}
		return &stageCoalesce{}, p.want(")")
	case "topk", "bottomk":
		return p.top(t)
	case "sort":
		return p.sort()
	case "limit":
		n, err := p.count()
		if err != nil {
			return nil, err
		}
		return &stageLimit{n}, p.want(")")
	}
	if functions[t.text].takes == noAggregate {
		return nil, p.noStage(t)
	}
	return p.aggregate(t)
}

// count parses an opening parenthesis and a non-negative number.
func (p *parser) count() (int64, error) {
	if err := p.want("("); err != nil {
		return 0, err
	}
	t := p.next()
	if t.kind != tokenNumber || t.value.kind != kindInt {
		return 0, p.fail(t, "", "expected a number, found %s", describe(t))
	}
	return t.value.n, nil
}

func (p *parser) list() ([]expr, error) {
	if t := p.peek(); t.kind == tokenWord && p.tokens[p.at-1].kind == tokenWord {
		by := p.tokens[p.at-1]
		return nil, p.fail(t, "write "+by.text+"("+t.text+")", "the fields of %s must be in parentheses", by.text).trying(p.with(by.end, t.end, "("+t.text+")"))
	}
	if err := p.want("("); err != nil {
		return nil, err
	}
	var all []expr
	for {
		x, err := p.or()
		if err != nil {
			return nil, err
		}
		if l, ok := x.(*literal); ok {
			err := p.failAt(l.pos, "write a field without quotes, and an attribute with a dot: ."+strings.Trim(p.text[l.pos:l.end], `"`), "%s is the same for all rows", l)
			if l.value.kind == kindString {
				_ = err.trying(p.with(l.pos, l.end, "."+attributeName(l.value.s)))
			}
			return nil, err
		}
		all = append(all, x)
		if !p.accept(",") {
			return all, p.want(")")
		}
	}
}

func (p *parser) top(t *token) (stage, error) {
	n, err := p.count()
	if err != nil {
		return nil, err
	}
	s := &stageTop{n: n, bottom: t.text == "bottomk"}
	if p.accept(",") {
		s.x, err = p.column()
		if err != nil {
			return nil, err
		}
	} else {
		s.x = &literal{} // the last column
	}
	return s, p.want(")")
}

func (p *parser) sort() (stage, error) {
	if err := p.want("("); err != nil {
		return nil, err
	}
	x, err := p.column()
	if err != nil {
		return nil, err
	}
	s := &stageSort{x: x}
	if p.isWord("asc") || p.isWord("desc") {
		s.desc = p.next().text == "desc"
	}
	return s, p.want(")")
}

// column parses the key by which rows or lines of a table are sorted. The key is an expression, or an aggregate
// that is a column of the table.
func (p *parser) column() (expr, error) {
	t := p.peek()
	f := functions[t.text]
	if f.takes != noAggregate && t.kind == tokenWord && p.tokens[p.at+1].kind == tokenMark && p.tokens[p.at+1].text == "(" {
		p.next()
		a, err := p.call(t)
		if err != nil {
			return nil, err
		}
		return &field{text: a.text, pos: t.pos, definition: tableColumn}, nil
	}
	if t.kind == tokenWord && f.takes != noAggregate && f.takes != aFilter {
		p.next()
		return &field{text: t.text, pos: t.pos, definition: tableColumn}, nil
	}
	return p.sum()
}

// tableColumn is the definition of a field that names a column of a table. Rows do not have this field.
var tableColumn = &definition{row: func(*env) Value { return Value{} }}

// aggregate parses an aggregate with its comparison and its by(…).
func (p *parser) aggregate(t *token) (stage, error) {
	a, err := p.call(t)
	if err != nil {
		return nil, err
	}
	if op := p.peek(); op.kind == tokenMark && slices.Contains(comparisons, op.text) {
		p.next()
		x, err := p.sum()
		if err != nil {
			return nil, err
		}
		l, ok := x.(*literal)
		if !ok || !l.value.isNumber() || op.text == "=~" || op.text == "!~" || op.text == "==" {
			return nil, p.fail(op, "", "%s() must be compared with a number", t.text)
		}
		if a.x != nil {
			l.value, err = p.fit(a.x, l)
			if err != nil {
				return nil, err
			}
		}
		if functions[t.text].table {
			return nil, p.fail(op, "", "%s() computes a table, which cannot be compared", t.text)
		}
		a.cond = &comparison{op: op.text, value: l.value}
		if t.text == "count" && l.value.kind == kindInt && l.value.n == 0 && (op.text == "=" || op.text == "<=") {
			p.hint("count() counts only traces with a match, so this finds nothing: write !{…} for traces without a match", "")
		}
	}
	if p.isWord("by") {
		p.next()
		a.by, err = p.list()
		if err != nil {
			return nil, err
		}
	}
	return a, nil
}

// call parses the arguments of a function.
func (p *parser) call(t *token) (*stageAggregate, error) {
	a, f := &stageAggregate{fn: t.text, pos: t.pos}, functions[t.text]
	if err := p.want("("); err != nil {
		return nil, err
	}
	var err error
	switch {
	case f.takes == aFilter:
		a.set, err = p.sets()
		if err != nil {
			return nil, err
		}
		a.text = "compare({…})"
		return a, p.want(")")
	case f.takes != rowsAlone:
		if p.is(")") {
			err := p.fail(p.peek(), "as in "+t.text+"(duration)", "%s() needs a field or an expression", t.text)
			return nil, err.trying(p.with(p.peek().pos, p.peek().pos, "duration"))
		}
		a.x, err = p.or()
		if err != nil {
			return nil, err
		}
		if f.takes == aNumber {
			if err := p.wantNumber(a.x, t); err != nil {
				return nil, err
			}
		}
	}
	var texts []string
	if a.x != nil {
		texts = append(texts, a.x.String())
	}
	for p.accept(",") {
		x, err := p.sum()
		if err != nil {
			return nil, err
		}
		l, ok := x.(*literal)
		q := 0.0
		if ok {
			q, ok = l.value.number()
		}
		if !ok || t.text != "quantile" || q < 0 || q > 1 {
			return nil, p.fail(t, "as in quantile(duration, 0.5, 0.99)", "%s() does not take these arguments", t.text)
		}
		a.args = append(a.args, q)
		texts = append(texts, l.String())
	}
	if t.text == "quantile" && len(a.args) == 0 {
		return nil, p.fail(t, "as in quantile(duration, 0.5, 0.99)", "quantile() needs the quantiles to compute")
	}
	if f.quantile != 0 {
		a.args = []float64{f.quantile}
	}
	a.text = t.text + "(" + strings.Join(texts, ", ") + ")"
	return a, p.want(")")
}
