package query

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"slices"
	"strings"

	"github.com/entrace-go/entrace/format"
	"github.com/entrace-go/entrace/internal/core/mapping"
	"github.com/entrace-go/entrace/internal/read/columns"
	"github.com/entrace-go/entrace/view"
)

// A Completion is one way to complete the last word of a query.
type Completion struct {
	Text  string `json:"text"`
	Kind  string `json:"kind"`            // name, attribute, value, operator or function
	Count int    `json:"count,omitempty"` // the number of entries with the attribute
}

const (
	// maxCompletionValues is the maximum number of different values of an attribute that are
	// considered.
	maxCompletionValues = 10_000
	// maxCompletionSize is the maximum size of a completion in bytes.
	maxCompletionSize = 300
)

// Complete returns completions of the last word of an unfinished query, and the offset at which that word begins.
// After a comparison operator, the completions are values of the compared field in the view. After a filter in
// braces, they are operators; after a | outside of braces, they are functions. Elsewhere, they are names of the
// language and of attributes. Completions that begin with the word precede completions that only contain it. The
// error is the error of ctx.
func Complete(ctx context.Context, v *view.View, beginning string) (from int, list []Completion, err error) {
	braces, open := unclosed(beginning)
	from, field, word := lastWord(beginning, open)
	switch before := strings.TrimRight(beginning[:from], " "); {
	case field != "":
		list, err = valuesOf(ctx, v, field)
	case open >= 0:
		list = namesIn(v)
	case strings.HasSuffix(before, "}"):
		list = completions("operator", "|", ">>", ">", "<<", "<", "~", "&&", "||", "!>>", "!<<")
	case strings.HasSuffix(before, "|") && !strings.HasSuffix(before, "||") && braces == 0:
		list = completions("function", "count()")
		for _, name := range functionNames() {
			if name != "count" {
				list = append(list, completions("function", name+"(")...)
			}
		}
	default:
		list = namesIn(v)
	}
	word = strings.ToLower(word)
	list = slices.DeleteFunc(list, func(c Completion) bool {
		return len(c.Text) > maxCompletionSize || !strings.Contains(strings.ToLower(c.Text), word)
	})
	contains := func(c Completion) int {
		if strings.HasPrefix(strings.ToLower(strings.TrimPrefix(c.Text, `"`)), word) {
			return 0
		}
		return 1
	}
	slices.SortStableFunc(list, func(a, b Completion) int { return contains(a) - contains(b) })
	return from, list, err
}

func completions(kind string, texts ...string) (list []Completion) {
	for _, text := range texts {
		list = append(list, Completion{Text: text, Kind: kind})
	}
	return list
}

// unclosed returns how many braces are open at the end of a text. It also returns the offset of a quoted text,
// regular expression or comment that is not closed, or -1.
func unclosed(text string) (braces, open int) {
	l := &lexer{s: text}
	if err, ok := errors.AsType[*Error](l.all()); ok && err.Pos < len(text) && strings.IndexByte("\"`'/", text[err.Pos]) >= 0 {
		return l.braces, err.Pos
	}
	return l.braces, -1
}

// lastWord returns the last word of a text and the offset at which the word begins. A quoted text or regular
// expression that is still open is the last word; open is its offset. If a comparison operator precedes the word,
// lastWord also returns the compared field.
func lastWord(text string, open int) (from int, field, word string) {
	wordAt := func(s string) int {
		return strings.LastIndexAny(s, " (){}=<>!~|&,") + 1
	}
	switch {
	case open > 0 && text[open-1] == '.': // ."a b"
		from = wordAt(text[:open])
	case open >= 0:
		from = open
	default:
		from = wordAt(text)
	}
	word = strings.TrimLeft(text[from:], "\"`'")
	before := strings.TrimRight(text[:from], " ")
	name := strings.TrimRight(before, "=<>!~")
	if name == before {
		return from, "", word
	}
	name = strings.TrimRight(name, " ")
	return from, name[wordAt(name):], word
}

// namesIn returns the names that can occur in a query on a view: first the names of fields without a colon, then
// attributes, then the names of fields with a colon.
func namesIn(v *view.View) []Completion {
	var list []Completion
	add := func(names map[string]*definition) {
		list = append(list, completions("name", slices.Sorted(maps.Keys(names))...)...)
	}
	add(bareNames)
	keys := columns.Of(v).Keys()
	slices.SortFunc(keys, func(a, b columns.Key) int {
		return cmp.Or(cmp.Compare(b.Entries, a.Entries), cmp.Compare(a.Name, b.Name))
	})
	for _, k := range keys {
		if name, own := mapping.UserName(k.Name); own {
			list = append(list, Completion{"." + attributeName(name), "attribute", k.Entries})
		}
	}
	add(scopedNames)
	return list
}

// valuesOf returns the values of a field in the view, in the syntax of queries.
func valuesOf(ctx context.Context, v *view.View, name string) ([]Completion, error) {
	tokens, err := lex("{ " + name + " }")
	if err != nil || len(tokens) < 2 || len(tokens[1].parts) == 0 {
		return nil, nil //nolint:nilerr // a text that is not a field has no values
	}
	f, ok := fieldNamed(&tokens[1], true)
	if !ok {
		f.definition, f.name = scopes[""], strings.Join(tokens[1].parts, ".") // user = eve
	}
	var texts []string
	switch {
	case f.kind.isEnum():
		texts = enumNames(f.kind)
	case f.kind == kindString && (f.meta != nil || f.resource != nil):
		c, err := (&machine{v: v, columns: columns.Of(v)}).column(f)
		if err != nil {
			return nil, err
		}
		for code := range c.width {
			if x := c.value(code); x.kind != kindNil {
				texts = append(texts, quote(x.s))
			}
		}
		slices.Sort(texts)
		texts = slices.Compact(texts)
	case f.name != "":
		c, err := columns.Of(v).Column(ctx, f.name)
		if err != nil {
			return nil, err
		}
		for i := range c.Values[:min(len(c.Values), maxCompletionValues)] {
			if x := c.Values[i]; x.Kind() > format.KindBytes || len(x.Text()) <= maxCompletionSize {
				texts = append(texts, (&literal{value: ValueOf(x)}).String())
			}
		}
	}
	return completions("value", texts...), nil
}
