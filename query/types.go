package query

import "strings"

// typeOf returns the kind that all values of an expression have. It returns kindInt for all plain
// numbers. It returns kindNil if the kind is unknown, because attributes can have values of any
// kind.
func typeOf(x expr) valueKind {
	switch x := x.(type) {
	case *literal:
		if x.value.kind == kindUint || x.value.kind == kindFloat {
			return kindInt
		}
		return x.value.kind
	case *field:
		return x.kind
	case *words, *compare:
		return kindBool
	case *unary:
		if x.op == "!" {
			return kindBool
		}
		return max(kindInt, typeOf(x.x))
	case *binary:
		if x.op == "&&" || x.op == "||" {
			return kindBool
		}
		a, b := typeOf(x.a), typeOf(x.b)
		switch {
		case x.op == "bucket":
			return max(kindInt, a)
		case a == kindTime && b == kindTime:
			return kindDuration
		case a == kindTime || b == kindTime:
			return kindTime
		}
		return max(kindInt, a, b)
	}
	return kindNil
}

// kindName returns a description of values of a kind, for error texts.
func kindName(k valueKind) string {
	switch k {
	case kindBool:
		return "true or false"
	case kindInt:
		return "a number"
	case kindDuration:
		return "a duration"
	case kindTime:
		return "a time"
	case kindString:
		return "a text"
	}
	return "one of " + strings.Join(enumNames(k), ", ")
}

// extent returns the start and end offset of an expression in the query.
func extent(x expr) (pos, end int) {
	switch x := x.(type) {
	case *literal:
		return x.pos, x.end
	case *field:
		return x.pos, x.end
	case *words:
		return x.pos, x.pos + len(x.text)
	case *unary:
		_, end := extent(x.x)
		return x.pos, end
	case *binary:
		pos, _ := extent(x.a)
		_, end := extent(x.b)
		return pos, end
	case *compare:
		pos, end := extent(x.a)
		if x.right != nil {
			_, end = extent(x.right)
		}
		return pos, end
	}
	return 0, 0
}

// wantBool returns an error if the value of an expression can never be a boolean.
func (p *parser) wantBool(x expr) *Error {
	k := typeOf(x)
	if k == kindBool || k == kindNil {
		if l, ok := x.(*literal); !ok || l.value.kind != kindNil {
			return nil
		}
	}
	pos, end := extent(x)
	err := p.failAt(pos, "compare it with a value", "%s is %s, which is not a condition", x, kindName(k))
	switch l, ok := x.(*literal); {
	case !ok:
		_ = err.trying(p.with(end, end, " != nil"))
	case l.value.kind == kindNil:
		err.Text = "nil is not a condition"
	case l.word != "":
		condition := enumField(l.value.kind).text + " = " + l.word
		err.Hint = "write " + condition
		_ = err.trying(p.with(pos, end, condition))
	case l.value.kind == kindString:
		err.Hint = "write free text without braces"
		_ = err.trying(quote(l.value.s))
	}
	return err
}

// wantNumber returns an error if an operand of arithmetic cannot be a number.
func (p *parser) wantNumber(x expr, t *token) *Error {
	switch k := typeOf(x); k {
	case kindNil, kindInt, kindDuration, kindTime:
		if l, ok := x.(*literal); !ok || l.value.kind != kindNil {
			return nil
		}
		return p.failAt(t.pos, "", "nil cannot be used in a computation")
	default:
		pos, _ := extent(x)
		return p.failAt(pos, "", "%s is %s, but %s needs numbers", x, kindName(k), t.text)
	}
}

// comparable returns an error if two expressions have kinds whose values are never equal.
func (p *parser) comparable(a, b expr) error {
	j, k := typeOf(a), typeOf(b)
	isNumber := func(k valueKind) bool { return k == kindInt || k == kindDuration || k == kindTime }
	if j == k || j == kindNil || k == kindNil || isNumber(j) && isNumber(k) {
		return nil
	}
	x, y := a, b
	if _, ok := a.(*literal); ok {
		x, y, j, k = b, a, k, j
	}
	pos, end := extent(y)
	err := p.failAt(pos, "", "%s is %s, but %s is %s", x, kindName(j), y, kindName(k))
	if l, ok := y.(*literal); ok && j == kindString && l.word == "" {
		err.Hint = "write " + quote(p.text[pos:end])
		_ = err.trying(p.with(pos, end, quote(p.text[pos:end])))
	} else if ok && l.value.kind == kindString {
		err.Hint = "write it without quotes"
		_ = err.trying(p.with(pos, end, l.value.s))
	}
	return err
}
