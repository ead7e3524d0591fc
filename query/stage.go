package query

import (
	"slices"
	"strings"
)

// aggregates are the aggregate functions. The value is true if the function needs an expression as
// an argument.
var aggregates = map[string]bool{
	"count": false, "sum": true, "avg": true, "min": true, "max": true, "stddev": true, "p50": true, "p90": true, "p95": true, "p99": true,
	"quantile": true, "histogram": true, "values": true, "compare": false,
}

// refused maps functions of TraceQL metrics, which compute time series, to equivalent queries in this language.
var refused = map[string]string{
	"rate":                "count() by(bucket(start, 1s))",
	"count_over_time":     "count() by(bucket(start, 1s))",
	"min_over_time":       "min(…) by(bucket(start, 1s))",
	"max_over_time":       "max(…) by(bucket(start, 1s))",
	"avg_over_time":       "avg(…) by(bucket(start, 1s))",
	"sum_over_time":       "sum(…) by(bucket(start, 1s))",
	"quantile_over_time":  "quantile(…, 0.95) by(bucket(start, 1s))",
	"histogram_over_time": "histogram(…) by(bucket(start, 1s))",
	"with":                "nothing: all rows are looked at",
}

// isStage reports whether a name is the name of a stage.
func isStage(name string) bool {
	_, ok := aggregates[name]
	return ok || slices.Contains(otherStages, name)
}

// otherStages are the stages other than aggregates.
var otherStages = []string{"by", "bottomk", "coalesce", "limit", "select", "sort", "topk"}

// stage parses a stage. The parser is after the |.
func (p *parser) stage() (stage, error) {
	t := p.peek()
	if p.take("{") {
		x, err := p.braced()
		return &stageFilter{x}, err
	}
	if t.kind != tokenWord {
		return nil, p.fail(t, "", "expected a function, found %s", describe(t))
	}
	p.next()
	p.braces++ // names are fields here, as within braces
	defer func() { p.braces-- }()
	if refused[t.text] != "" {
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
	if _, ok := aggregates[t.text]; !ok {
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
		if !p.take(",") {
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
	if p.take(",") {
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
	if _, ok := aggregates[t.text]; ok && t.kind == tokenWord && p.tokens[p.at+1].kind == tokenMark && p.tokens[p.at+1].text == "(" {
		p.next()
		a, err := p.call(t)
		if err != nil {
			return nil, err
		}
		return &field{text: a.text, pos: t.pos, kind: fieldColumn}, nil
	}
	if ok := aggregates[t.text]; t.kind == tokenWord && (ok || t.text == "count") {
		p.next()
		return &field{text: t.text, pos: t.pos, kind: fieldColumn}, nil
	}
	return p.sum()
}

// fieldColumn is the kind of a field that is the name of a column of a table.
const fieldColumn fieldKind = 255

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
		switch t.text {
		case "histogram", "values", "compare":
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
	a := &stageAggregate{fn: t.text, pos: t.pos}
	if err := p.want("("); err != nil {
		return nil, err
	}
	var err error
	switch {
	case t.text == "compare":
		a.set, err = p.sets()
		if err != nil {
			return nil, err
		}
		a.text = "compare({…})"
		return a, p.want(")")
	case aggregates[t.text]:
		if p.is(")") {
			err := p.fail(p.peek(), "as in "+t.text+"(duration)", "%s() needs a field or an expression", t.text)
			return nil, err.trying(p.with(p.peek().pos, p.peek().pos, "duration"))
		}
		a.x, err = p.or()
		if err != nil {
			return nil, err
		}
		if t.text != "min" && t.text != "max" && t.text != "values" {
			if err := p.wantNumber(a.x, t); err != nil {
				return nil, err
			}
		}
	}
	var texts []string
	if a.x != nil {
		texts = append(texts, a.x.String())
	}
	for p.take(",") {
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
	if t.text[0] == 'p' {
		a.args = []float64{map[string]float64{"p50": 0.5, "p90": 0.9, "p95": 0.95, "p99": 0.99}[t.text]}
	}
	a.text = t.text + "(" + strings.Join(texts, ", ") + ")"
	return a, p.want(")")
}
