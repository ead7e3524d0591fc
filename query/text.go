package query

import (
	"regexp/syntax"
	"strings"

	"github.com/entrace-go/entrace/format"
	"github.com/entrace-go/entrace/internal/core/mapping"
	"github.com/entrace-go/entrace/internal/read/columns"
	"github.com/entrace-go/entrace/view"
)

// A textNode is the filter node of free text. It reads only entries whose raw bytes may contain the text.
type textNode struct {
	is    func(e *env) bool
	texts []string // every match contains one of these texts, ignoring case; empty: any entry can match
}

func (n *textNode) refine(e *env, k int, b *columns.Block, set *blockBits) {
	f := e.finders[n]
	if len(n.texts) > 0 {
		if f == nil {
			f = e.m.columns.Finder(n.texts...)
			if e.finders == nil {
				e.finders = make(map[*textNode]columns.Finder)
			}
			e.finders[n] = f
		}
		f.Block(k, (*[words64]uint64)(set))
	}
	(&rows{is: n.is}).refine(e, k, b, set)
}

func (n *textNode) cost() int { return 500 }

// textsOf returns texts in lower case. Everything that x matches contains at least one of these texts. It returns nil
// if no such texts are known.
func textsOf(x *words) []string {
	if x.regex == nil {
		return []string{x.fold}
	}
	re, err := syntax.Parse(x.regex.String(), syntax.Perl)
	if err != nil {
		return nil // cannot happen, because the expression was compiled before
	}
	texts := required(re.Simplify())
	if shortest(texts) < minText {
		return nil
	}
	return texts
}

const (
	// maxTexts is the maximum number of texts of a regular expression.
	maxTexts = 8
	// minText is the minimum length of a text, because nearly every entry contains shorter texts.
	minText = 3
)

// required returns texts. Everything that the regular expression matches contains at least one of these texts. The
// list is empty if no such texts are known. For a concatenation, required chooses the part with the longest texts.
func required(re *syntax.Regexp) []string {
	switch re.Op {
	case syntax.OpLiteral:
		return []string{strings.ToLower(string(re.Rune))}
	case syntax.OpCapture, syntax.OpPlus:
		return required(re.Sub[0])
	case syntax.OpRepeat:
		if re.Min > 0 {
			return required(re.Sub[0])
		}
	case syntax.OpConcat:
		var best []string
		for _, sub := range re.Sub {
			if texts := required(sub); shortest(texts) > shortest(best) {
				best = texts
			}
		}
		return best
	case syntax.OpAlternate:
		var all []string
		for _, sub := range re.Sub {
			texts := required(sub)
			all = append(all, texts...)
			if len(texts) == 0 || len(all) > maxTexts {
				return nil
			}
		}
		return all
	}
	return nil
}

// shortest returns the length of the shortest text, or 0 if there are no texts.
func shortest(texts []string) int {
	if len(texts) == 0 {
		return 0
	}
	n := len(texts[0])
	for _, text := range texts[1:] {
		n = min(n, len(text))
	}
	return n
}

// words compiles free text to a function that reports whether a row contains it.
func (m *machine) words(w *words) func(e *env) bool {
	v := m.v
	match := func(s string) bool {
		if w.regex != nil {
			return w.regex.MatchString(s)
		}
		return strings.Contains(strings.ToLower(s), w.fold)
	}
	return func(e *env) bool {
		r := e.row
		meta := v.Metadata(r)
		// The names of log records are not searched, because users see the message instead of the name.
		if v.Role(r) != view.RoleLog && match(meta.Name) || match(meta.Target) {
			return true
		}
		if s, ok := v.Message(r); ok && match(s) {
			return true
		}
		entry, err := e.read.Entry(r)
		if err != nil {
			return false
		}
		for i := range entry.Attributes {
			a := &entry.Attributes[i]
			name, own := mapping.UserName(a.Name)
			if !own && a.Name != mapping.AttrStatusDescription {
				continue
			}
			if own && match(name) || a.Value.Kind() == format.KindString && match(a.Value.Text()) {
				return true
			}
		}
		return false
	}
}
