package query

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/entrace-go/entrace/internal/core/mapping"
	"github.com/entrace-go/entrace/internal/read/columns"
	"github.com/entrace-go/entrace/internal/text"
	"github.com/entrace-go/entrace/view"
)

// with returns the query with text in place of the bytes [from, to). It returns "" if the range is invalid or
// empty.
func (q *Query) with(from, to int, text string) string {
	if from < 0 || to <= from || to > len(q.text) {
		return ""
	}
	return q.text[:from] + text + q.text[to:]
}

// lackHints returns hints about rows that an inequality, such as .user != "x", did not select because they do not
// have the attribute. It does not count rows that another part of the query selected, or rows whose role cannot have
// the field.
func (q *Query) lackHints(m *machine, selected view.Set[view.Row]) []Hint {
	var hints []Hint
	for _, text := range slices.Sorted(maps.Keys(m.lacks)) {
		l := m.lacks[text]
		none, err := m.where(&compare{comparison: comparison{op: "="}, a: l.field}, nil)
		if err != nil {
			continue
		}
		n := 0
		for r := range none.All() {
			if !selected.Has(r) {
				n++
			}
		}
		if n == 0 {
			continue
		}
		h := Hint{Text: fmt.Sprintf("%d rows have no %s, and are not selected: to select them as well, write (%s %s … || %s = nil)", n, text, text, l.x.op, text)}
		if from, to := extent(l.x); from < to && to <= len(q.text) {
			h.Query = q.with(from, to, "("+q.text[from:to]+" || "+text+" = nil)")
		}
		hints = append(hints, h)
	}
	return hints
}

// maxHints is the maximum number of hints about an empty result.
const maxHints = 5

// emptyHints returns hints that explain why a query selected nothing. For example, no row has an attribute, or an
// attribute never has values of the kind to which it is compared.
func (q *Query) emptyHints(m *machine) []Hint {
	var hints []Hint
	add := func(h Hint) {
		if !slices.Contains(hints, h) && len(hints) < maxHints {
			hints = append(hints, h)
		}
	}
	for _, h := range q.ifNone {
		// The query may be invalid, as name = log:time, which compares a text with a time.
		if _, err := parse(h.Query); err == nil {
			add(h)
		}
	}
	names := m.names()
	compared, calculated := make(map[expr]bool), make(map[expr]bool) // the operands of comparisons and of arithmetic
	visitFilters(q.root, func(x expr) {
		switch x := x.(type) {
		case *compare:
			f, ok := x.a.(*field)
			compared[x.a], compared[x.b] = true, true
			if ok && x.op == "=" && x.right != nil && x.right.value.kind == kindString && (!f.user || names[f.name]) {
				if h := q.otherValue(m, f, x.right); h.Text != "" {
					add(h)
				}
			}
			if !ok || !f.user {
				return
			}
			var h Hint
			if !names[f.name] {
				h = m.noneHint(f)
			} else if x.right != nil && x.right.value.kind != kindNil {
				h = q.otherKind(m, f, x.right)
			}
			if h.Query == "" && x.right != nil && !strings.HasPrefix(q.text[f.pos:], f.text) { // no dot, as in user = eve
				from, to := extent(x)
				text := quote(q.text[from:to])
				// The corrected query may be invalid: within braces, text is not free text.
				if _, err := parse(q.with(from, to, text)); err == nil {
					h = Hint{cmp.Or(h.Text, f.text+" is read as an attribute") + "; to find the text, write " + text, q.with(from, to, text)}
				}
			}
			if h.Text != "" {
				add(h)
			}
		case *binary:
			isNumber := x.op != "&&" && x.op != "||"
			calculated[x.a], calculated[x.b] = isNumber, isNumber
		case *unary:
			calculated[x.x] = x.op == "-"
		case *field:
			if f := x; f.user && !compared[f] {
				if names[f.name] && !calculated[f] {
					add(Hint{f.text + " alone selects the rows where the value is true; for all rows with the attribute, write " + f.text + " != nil", q.with(f.pos, f.end, f.text+" != nil")})
				} else if h := m.noneHint(f); h.Text != "" {
					add(h)
				}
			}
		case *words:
			if key, value, ok := strings.Cut(x.text, ":"); ok && names[key] && value != "" {
				field := "." + attributeName(key)
				add(Hint{x.text + " is a text here; for the attribute, write " + field + " = " + quote(value), q.with(x.pos, x.pos+len(x.text), field+" = "+quote(value))})
			}
		}
	})
	return hints
}

// knowsAll reports whether the column has all values of the part.
func (p *part) knowsAll() bool {
	return p.column != nil && !slices.Contains(p.column.Codes, columns.UnknownText)
}

// hasNone reports whether no row has an attribute of the given name.
func (m *machine) hasNone(name string) bool {
	a, err := m.attribute(name)
	if err != nil {
		return false
	}
	for i := range a.parts {
		if p := &a.parts[i]; len(p.values) > 1 || !p.knowsAll() {
			return false
		}
	}
	return true
}

// names returns the names of the attributes that rows have.
func (m *machine) names() map[string]bool {
	names := make(map[string]bool)
	for _, k := range m.columns.Keys() {
		if name, own := mapping.UserName(k.Name); own {
			names[name] = true
		}
	}
	return names
}

// noneHint returns a hint that no row has the attribute x. It proposes a field or attribute that the user may have
// meant. The hint is empty if x is not an attribute, or if a row has it.
func (m *machine) noneHint(x expr) (h Hint) {
	f, ok := x.(*field)
	if !ok || !f.user || !m.hasNone(f.name) {
		return h
	}
	h.Text = "no row has " + f.text
	other := ""
	if bareNames[f.name] != nil && f.text == "."+f.name {
		other = f.name
	} else if scopedNames["span:"+f.name] != nil {
		other = "span:" + f.name
	} else if name := nearest(f.name, slices.Sorted(maps.Keys(m.names()))); name != "" {
		scope := strings.TrimSuffix(f.text, attributeName(f.name))
		if !strings.HasSuffix(scope, ".") {
			scope = "."
		}
		other = scope + attributeName(name)
	}
	if other == "" {
		var near []string
		for _, name := range text.NearestFew(f.name, slices.Sorted(maps.Keys(m.names())), 3) {
			near = append(near, "."+attributeName(name))
		}
		if len(near) > 0 {
			h.Text += "; the nearest names are " + strings.Join(near, ", ")
		}
		key := quote(`"` + f.name[strings.LastIndexByte(f.name, '.')+1:] + `":`)
		if q, err := Parse(key); err == nil && q.isIn(m.ctx, m.v) {
			h.Text, h.Query = h.Text+"; some texts in JSON have it: find them with "+key, key
		}
		return h
	}
	h.Text += "; did you mean " + other + "?"
	h.Query = m.q.with(f.pos, f.end, other)
	if h.Query != "" {
		if _, err := parse(h.Query); err != nil { // the proposed query is invalid, as for .level = 5
			h.Query = ""
		}
	}
	return h
}

// maxValues is the maximum number of values that otherValue considers. It considers the most frequent values.
const maxValues = 1000

// otherValue returns a hint with the values of a field that are nearest to a text. The hint is empty if the text is a
// value of the field, or if the field has no texts.
func (q *Query) otherValue(m *machine, f *field, l *literal) (h Hint) {
	lines := valueLines(m.ctx, m.v, f.text)
	var values []string
	for _, line := range lines[:min(len(lines), maxValues)] {
		if line[0].kind == kindString {
			values = append(values, line[0].s)
		}
	}
	if len(values) == 0 || slices.Contains(values, l.value.s) {
		return h
	}
	var near []string
	for _, s := range text.NearestFew(l.value.s, values, 3) {
		near = append(near, quote(text.Cut(s, maxNear)))
	}
	h.Text = "no row has this " + f.text + "; the nearest are " + strings.Join(near, ", ")
	if s := nearest(l.value.s, values); s != "" {
		h.Query = q.with(l.pos, l.end, quote(s))
	}
	return h
}

// valueLines returns the lines of values(field) for all rows, or nil if the field has no values.
func valueLines(ctx context.Context, v *view.View, field string) [][]Value {
	q, err := Parse("{} | values(" + field + ")")
	if err != nil {
		return nil
	}
	r, err := q.Run(ctx, v, nil)
	if err != nil {
		return nil
	}
	return r.Table.Lines
}

// maxNear is the maximum length of a value in a hint.
const maxNear = 60

// isIn reports whether a query selects any row.
func (q *Query) isIn(ctx context.Context, v *view.View) bool {
	r, err := q.Run(ctx, v, nil)
	return err == nil && r.Rows.Len() > 0
}

// otherKind returns a hint that an attribute never has values of the kind to which the query compares it. The hint
// is empty if the attribute has such values.
func (q *Query) otherKind(m *machine, f *field, l *literal) (h Hint) {
	a, err := m.attribute(f.name)
	if err != nil {
		return h
	}
	kinds := make(map[int]string) // Value.class → the name of the kind
	lists := true
	note := func(v Value) {
		if v.kind == kindNil {
			return
		}
		lists = lists && v.kind == kindString && strings.HasPrefix(v.s, "[") && strings.HasSuffix(v.s, "]")
		kind := v.kind
		if v.isNumber() {
			kind = kindInt
		}
		kinds[v.class()] = kindName(kind)
	}
	for i := range a.parts {
		for _, v := range a.parts[i].values {
			note(v)
		}
		if !a.parts[i].knowsAll() {
			return h
		}
	}
	for _, v := range a.resources {
		note(v)
	}
	if lists && len(kinds) > 0 && l.value.kind == kindString && l.value.s != "" && l.value.s[0] != '[' {
		item := f.text + " contains " + quote(quote(l.value.s))
		return Hint{f.text + " is a list here, stored as one text: write " + item, q.with(f.pos, l.end, item)}
	}
	if _, has := kinds[l.value.class()]; has || len(kinds) == 0 {
		return h
	}
	written := q.text[l.pos:l.end]
	h.Text = f.text + " is " + strings.Join(slices.Sorted(maps.Values(kinds)), ", or ") + " here"
	other := quote(written)
	if l.value.kind == kindString {
		other = l.value.s
		if _, err := strconv.ParseFloat(other, 64); err != nil && other != "true" && other != "false" {
			return h
		}
	}
	h.Text += ": write " + other
	h.Query = q.with(l.pos, l.end, other)
	return h
}
