package query

import "cmp"

func (p *parser) sum() (expr, error) {
	return p.joined(p.not, func() bool {
		return p.is("+") || p.is("-") && (p.braces > 0 || !p.peek().space || p.tokens[p.at+1].space)
	})
}

func (p *parser) product() (expr, error) {
	return p.joined(p.power, func() bool { return p.is("*") || p.is("/") || p.is("%") })
}

// joined parses operands that operators of one precedence join. It computes from left to right. The func follows
// reports whether the next token is such an operator.
func (p *parser) joined(operand func() (expr, error), follows func() bool) (expr, error) {
	a, err := operand()
	for err == nil && follows() {
		t := p.next()
		var b expr
		b, err = operand()
		if err == nil {
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
			return &literal{value: negative(l.value), pos: t.pos, end: l.end}, nil
		}
		return &unary{op: "-", x: x, pos: t.pos}, p.wantNumber(x, t).orNil()
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

// arithmetic returns a op b. If a and b are number literals, it returns the computed number.
func (p *parser) arithmetic(t *token, a, b expr) (expr, error) {
	x := &binary{t.text, a, b}
	if err := cmp.Or(p.wantNumber(a, t), p.wantNumber(b, t)); err != nil {
		return nil, err
	}
	l, ok := a.(*literal)
	m, ok2 := b.(*literal)
	if !ok || !ok2 {
		return x, nil
	}
	v := calculate(t.text, l.value, m.value)
	if v.kind == kindNil {
		return nil, p.fail(t, "", "%s %s %s has no value", l, t.text, m)
	}
	return &literal{value: v, pos: l.pos, end: m.end}, nil
}
