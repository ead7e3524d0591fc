package query

import (
	"context"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/entrace-go/entrace/view"
)

// maxTry is the maximum length of a query that findTry tries to correct.
const maxTry = 1000

// findTry sets Try to a complete, valid query, or to "". It begins with the query that the error proposes, or else
// with the query with missing brackets added. If that query is invalid, it corrects further mistakes in the same
// way. If this fails, it proposes the text as a quoted phrase, unless the user has probably meant a condition.
func (e *Error) findTry() {
	next, err := e.Try, e
	e.Try = ""
	if len(e.Query) > maxTry {
		return
	}
	for range 8 {
		if next == "" {
			next = err.closed()
		}
		if next == "" {
			break
		}
		_, err = parse(next)
		if err == nil {
			e.Try = next
			return
		}
		next = err.Try
	}
	phrase := quote(strings.ToValidUTF8(strings.TrimSpace(e.Query), "\uFFFD"))
	if _, err := parse(phrase); err == nil && !isCondition(e.Query) {
		e.Try = phrase
	}
	tokens, _ := lex(e.Query)
	for i := len(tokens) - 1; i > 0 && e.Try == ""; i-- { // try the part of the query before the mistake
		head := &Error{Query: e.Query[:tokens[i].end], Pos: tokens[i].end}
		if head.Pos > e.Pos || strings.Trim(head.Query, "{}()| ") == "" {
			continue
		}
		e.Try = head.closed()
		if _, err := parse(head.Query); err == nil {
			e.Try = head.Query
		}
	}
}

// isCondition reports whether the user has probably meant an invalid query as conditions and not as free text. The
// text then contains a brace or a | and is not JSON, or it compares a field.
func isCondition(text string) bool {
	if !strings.HasPrefix(text, `{"`) && strings.ContainsAny(text, "{|") {
		return true
	}
	tokens, _ := lex(text)
	p := &parser{tokens: append(tokens, token{})}
	for i := range tokens {
		if t := &p.tokens[i]; t.kind == tokenWord {
			if _, isField := fieldNamed(t, true); isField && p.compared(i, i) {
				return true
			}
		}
	}
	return false
}

// WithValue completes an error with an unfinished comparison. The returned error offers the query with the most
// frequent value of the field in v. WithValue returns e itself if it has no value to offer.
func (e *Error) WithValue(ctx context.Context, v *view.View) *Error {
	if e.Unfinished == "" {
		return e
	}
	lines := valueLines(ctx, v, e.Unfinished)
	if len(lines) == 0 {
		return e
	}
	text := (&literal{value: lines[0][0]}).String()
	whole := e.Query[:e.valueAt] + " " + text + e.Query[e.valueEnd:]
	if _, err := parse(whole); err != nil || len(whole) > maxTry {
		return e
	}
	offer := *e
	offer.Try = whole
	return &offer
}

// closed returns the query with the closing brackets that are missing at its end. It returns "" if the query is still
// invalid.
func (e *Error) closed() string {
	text := strings.TrimSpace(e.Query)
	if e.Pos < len(text) || !strings.ContainsAny(text, "{(") {
		return ""
	}
	for _, end := range []string{" }", ")", " })", " }))"} {
		if _, err := parse(text + end); err == nil {
			return text + end
		}
	}
	return ""
}

// noName returns the error for the word t, which is not a known name. The word is p.tokens[at].
func (p *parser) noName(t *token, at int) *Error {
	if len(t.parts) > 1 {
		err := p.fail(t, "scopes are span., resource., event., link., instrumentation., log. and parent., or none", "%s. is not a scope", t.parts[0])
		if scope := nearest(t.parts[0], slices.Sorted(maps.Keys(scopes))); scope != "" {
			return err.trying(p.with(t.pos, t.pos+len(t.parts[0]), scope))
		}
		return err.trying(p.with(t.pos, t.end, "."+t.text))
	}
	if isNestedSet(t.text) {
		return p.fail(t, "write {…} >> {…} for what is below, and { parent = nil } for roots", "%s is a field of Tempo, which ENTRACE does not have", t.text)
	}
	if _, known := braceNames[t.text]; known && p.braces == 0 && similar(t.text, false) == "" {
		whole := "{ " + strings.TrimSpace(p.text) + " }"
		if !strings.ContainsAny(p.text, "{}") {
			if _, err := parse(whole); err == nil {
				return p.fail(t, "write "+whole, "%s is a name only inside braces", t.text).trying(whole)
			}
		}
	}
	if scope, _, ok := strings.Cut(t.text, ":"); ok {
		known := slices.DeleteFunc(slices.Sorted(maps.Keys(scopedNames)), func(s string) bool { return !strings.HasPrefix(s, scope+":") })
		if len(known) > 0 {
			if s := nearest(t.text, known); isTypo(t.text, s) {
				return p.fail(t, "did you mean "+s+"?", "%s is not a known name", t.text).trying(p.with(t.pos, t.end, s))
			}
			return p.fail(t, "known are "+strings.Join(known, ", "), "%s is not a known name", t.text)
		}
	}
	fix, end := "."+t.text, t.end
	hint := "did you mean ." + t.text
	if s := similar(t.text, p.braces > 0); s != "" {
		hint += ", or " + s
		if _, known := braceNames[t.text]; known || isTypo(t.text, s) {
			fix = s
		}
	}
	if at > 0 && p.tokens[at-1].kind == tokenMark && slices.Contains(comparisons, p.tokens[at-1].text) {
		end = p.textEnd(at)
		fix = quote(p.text[t.pos:end])
		hint = "a text needs quotes: " + fix
		if before := &p.tokens[max(0, at-2)]; before.kind == tokenWord {
			if f, ok := fieldNamed(before, p.braces > 0); ok && f.kind.isEnum() {
				return p.noValue(f, f.kind, t.text, t.pos, t.end)
			}
		}
	}
	return p.fail(t, hint+"?", "%s is not a known name", t.text).trying(p.with(t.pos, end, fix))
}

// noValue returns the error for a comparison of x, whose values have an enum kind, with an unknown name. The name
// is at [pos, end) in the query.
func (p *parser) noValue(x expr, kind valueKind, name string, pos, end int) *Error {
	names := enumNames(kind)
	err := p.failAt(pos, "known values are "+strings.Join(names, ", "), "%s has no value %s", x, name)
	if s := nearest(strings.ToLower(name), names); s != "" {
		_ = err.trying(p.with(pos, end, s))
	}
	return err
}

// otherOperators maps operators of other languages to operators of this language.
var otherOperators = map[string]string{"like": "contains", "is": "=", "equals": "=", "matches": "=~"}

// otherOperator returns the error for t, one of the otherOperators, after a field. It returns nil if the word can
// be free text.
func (p *parser) otherOperator(a expr, t *token) error {
	value := &p.tokens[min(p.at+1, len(p.tokens)-1)]
	if value.kind != tokenWord && value.kind != tokenString && value.kind != tokenNumber {
		return nil
	}
	text, end := p.text[value.pos:value.end], value.end
	if !value.isQuoted(p.text) {
		end = p.textEnd(p.at + 1)
		text = quote(p.text[value.pos:end])
	} else if t.text == "like" {
		text = quote(strings.Trim(value.text, "%"))
	}
	other := otherOperators[t.text] + " " + text
	switch a := a.(type) {
	case *field:
		return p.fail(t, "write "+other, "%s is not an operator", t.text).trying(p.with(t.pos, end, other))
	case *words:
		if t.text == "like" {
			p.ifNone = append(p.ifNone, Hint{"like is a text here; for an attribute, write ." + a.text + " " + other, p.with(a.pos, end, "."+a.text+" "+other)})
		}
	}
	return nil
}

// unfinished returns the error for a comparison that has no right side.
func (p *parser) unfinished(a expr, operator *token) *Error {
	f, ok := a.(*field)
	if !ok {
		return p.fail(p.peek(), "", "expected a value, found %s", describe(p.peek()))
	}
	examples := map[valueKind]string{
		kindInt: "1", kindDuration: "100ms", kindTime: `"2026-11-22T15:04:05Z"`, kindBool: "true",
		kindLevel: "error", kindStatus: "error", kindSpanKind: "server", kindRole: "span",
	}
	condition := f.text + " != nil" // selects rows with any value of the field
	example, end := examples[typeOf(f)], p.tokens[p.at-1].end
	takesValue := operator.kind == tokenMark && !strings.Contains(operator.text, "~")
	if example != "" && takesValue {
		condition = f.text + " " + operator.text + " " + example
	}
	e := p.fail(p.peek(), "as in "+condition, "expected a value, found %s", describe(p.peek())).trying(p.with(f.pos, end, condition))
	if example == "" && takesValue {
		e.Unfinished, e.valueAt, e.valueEnd = f.text, operator.end, end
	}
	return e
}

// textEnd returns the end offset of the unquoted text that begins with token i and can have several words.
func (p *parser) textEnd(i int) (end int) {
	for end = p.tokens[i].end; ; {
		i++
		t := &p.tokens[i]
		switch {
		case t.kind == tokenEnd, t.kind == tokenMark && strings.Contains("( ) { } && || | !", t.text), t.isQuoted(p.text),
			t.kind == tokenWord && (t.text == "and" || t.text == "or" || t.text == "not" || p.comparisonAt(i) || p.comparisonAt(i+1)):
			return end
		}
		end = t.end
	}
}

// isNestedSet reports whether a word is one of Tempo's nestedSet fields, which number the spans of
// a tree.
func isNestedSet(word string) bool { return strings.HasPrefix(word, "nestedSet") }

// noCall returns the error for a function call inside of a filter.
func (p *parser) noCall(t *token) *Error {
	if isFunction(t.text) {
		return p.fail(t, "write a | before it", "%s() must come after the filter", t.text).trying("{} | " + p.text)
	}
	return p.fail(t, "put quotes around a text with parentheses", "%s() cannot be part of a filter", t.text)
}

// noSet returns the error for the token t at a position where a filter in braces is expected.
func (p *parser) noSet(t *token) *Error {
	if next := &p.tokens[min(p.at+1, len(p.tokens)-1)]; t.kind == tokenWord && isFunction(t.text) && next.text == "(" {
		return p.noCall(t)
	}
	return p.fail(t, "", "expected a filter in {…}, found %s", describe(t))
}

// metrics returns the error for a TraceQL metrics query, or nil if the query is not one.
func (p *parser) metrics() *Error {
	for i, t := range p.tokens[:len(p.tokens)-1] {
		if t.kind == tokenWord && p.tokens[i+1].text == "(" && functions[t.text].instead != "" {
			return p.refuse(&p.tokens[i])
		}
	}
	return nil
}

// refuse returns the error for a function of TraceQL metrics.
func (p *parser) refuse(t *token) *Error {
	e := p.fail(t, "write "+functions[t.text].instead, "%s() is a TraceQL metrics function, which is not supported", t.text)
	if t.text == "with" {
		return e
	}
	return e.trying(p.tableAt(t))
}

// metricsCall matches a call of a function of TraceQL metrics, with its by(…) and with(…), and the stages after it.
var metricsCall = regexp.MustCompile(`^\w+\s*\(([^()]*)\)?(?:\s*by\s*\(([^()]*)\)?)?(?:\s*with\s*\([^()]*\))?\s*((?:\|[^()|]*\([^()]*\)\s*)*)`)

// tableAt returns a pipeline that computes a table in place of the function t of TraceQL metrics. It keeps the filter
// before the function and the stages after it, and drops arithmetic with the result.
func (p *parser) tableAt(t *token) string {
	call := metricsCall.FindStringSubmatch(p.text[t.pos:])
	form := functions[t.text].instead
	if strings.Contains(call[1], ",") {
		form = strings.Replace(form, "…, 0.95", "…", 1)
	}
	form = strings.Replace(form, "…", call[1], 1)
	if call[2] != "" {
		form = strings.TrimSuffix(form, ")") + ", " + call[2] + ")"
	}
	open := []int{0} // where the text within each open bracket begins
	for i := 0; p.tokens[i].pos < t.pos; i++ {
		switch x := &p.tokens[i]; {
		case x.is("("):
			open = append(open, x.end)
		case x.is(")"):
			open = open[:max(1, len(open)-1)]
		}
	}
	return strings.TrimSpace(p.text[open[len(open)-1]:t.pos] + form + " " + call[3])
}

// noStage returns the error for an unknown stage.
func (p *parser) noStage(t *token) *Error {
	if n, err := strconv.ParseFloat(strings.TrimPrefix(t.text, "p"), 64); err == nil && t.text[0] == 'p' && n >= 0 && n <= 100 {
		q := strconv.FormatFloat(n/100, 'f', -1, 64)
		e := p.fail(t, "write quantile(…, "+q+")", "unknown function %s()", t.text)
		for i := p.at; i < len(p.tokens); i++ { // find the end of the call
			if p.tokens[i].text == ")" {
				end := p.tokens[i].pos
				return e.trying(p.text[:t.pos] + "quantile" + p.text[t.end:end] + ", " + q + p.text[end:])
			}
		}
		return e
	}
	names := functionNames()
	name := nearest(t.text, names)
	if t.text == "group" || t.text == "groupby" {
		name = "by"
	}
	if name == "" {
		return p.fail(t, "known functions are "+strings.Join(names, ", "), "unknown function %s()", t.text)
	}
	return p.fail(t, "did you mean "+name+"?", "unknown function %s()", t.text).trying(p.with(t.pos, t.end, name))
}
