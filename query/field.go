package query

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	"github.com/entrace-go/entrace/format"
	"github.com/entrace-go/entrace/internal/otel"
	"github.com/entrace-go/entrace/internal/text"
	"github.com/entrace-go/entrace/view"
)

// enumValues are the values that have names. The values of a kind are in their order. For the name "error", the status
// precedes the level.
var enumValues = func() (list []Value) {
	for _, of := range [...]struct {
		kind valueKind
		n    uint8
	}{{kindStatus, uint8(otel.StatusError)}, {kindLevel, uint8(format.LevelError)}, {kindSpanKind, uint8(otel.KindConsumer)}, {kindRole, uint8(view.RoleRecorder)}} {
		for n := range of.n + 1 {
			if v := enumValue(of.kind, n); v != enumValue(kindRole, uint8(view.RoleFolded)) {
				list = append(list, v)
			}
		}
	}
	return list
}()

// named returns the enum values that a word names. They can have several kinds.
func named(word string) []Value {
	return slices.DeleteFunc(slices.Clone(enumValues), func(v Value) bool { return strings.ToLower(v.String()) != word })
}

// isEnum reports whether values of the kind have names.
func (k valueKind) isEnum() bool { return k >= kindLevel }

// enumField returns the field whose values have an enum kind.
func enumField(kind valueKind) *field {
	at := slices.IndexFunc(definitions, func(d *definition) bool { return d.kind == kind })
	name, _, _ := strings.Cut(definitions[at].names, " ")
	return &field{definition: definitions[at], text: name}
}

// enumNamed returns the value of an enum kind with the given name, ignoring case.
func enumNamed(kind valueKind, word string) (Value, bool) {
	word = strings.ToLower(word)
	if word == "warning" {
		word = "warn"
	}
	for _, v := range named(word) {
		if v.kind == kind {
			return v, true
		}
	}
	return Value{}, false
}

// enumNames returns the names of the values of an enum kind, in the order of the values.
func enumNames(kind valueKind) (names []string) {
	for _, v := range enumValues {
		if v.kind == kind {
			names = append(names, strings.ToLower(v.String()))
		}
	}
	return names
}

// attributeName returns the name of an attribute as it follows the dot in a query. It quotes the name if the lexer
// would otherwise read another name, in braces or outside of them.
func attributeName(name string) string {
	for _, context := range [2][2]string{{"{.", "=1}"}, {".", " = 1"}} {
		if tokens, err := lex(context[0] + name + context[1]); err != nil || !isAttribute(tokens, name) {
			return quote(name)
		}
	}
	return name
}

// isAttribute reports whether tokens begin with an optional brace, the attribute called name, and an equals
// sign.
func isAttribute(tokens []token, name string) bool {
	if tokens[0].text == "{" {
		tokens = tokens[1:]
	}
	if len(tokens) < 3 || tokens[0].kind != tokenWord || tokens[1].text != "=" {
		return false
	}
	f, ok := fieldNamed(&tokens[0], true)
	return ok && f.inherits && f.name == name
}

// fieldNamed returns the field that a word names. It returns false if the word is not a field.
func fieldNamed(t *token, inBraces bool) (f *field, ok bool) {
	f = &field{text: t.text, pos: t.pos, end: t.end}
	parts := t.parts
	if len(parts) > 1 && parts[0] == "parent" {
		f.parent = true
		parts = parts[1:]
		if _, scoped := scopes[parts[0]]; !scoped || len(parts) == 1 { // parent.x.y is an attribute
			parts = append([]string{""}, parts...)
		}
	}
	if len(parts) == 1 {
		scoped := parts[0]
		name, ofParent := strings.CutPrefix(scoped, "parent:")
		if ofParent {
			f.parent, scoped = true, "span:"+name
		}
		f.definition = cmp.Or(scopedNames[scoped], bareNames[name])
		if f.definition == nil && inBraces {
			f.definition = braceNames[parts[0]]
		}
		return f, f.definition != nil
	}
	f.definition, f.name = scopes[parts[0]], strings.Join(parts[1:], ".")
	return f, f.definition != nil && (f.name != "" || strings.HasSuffix(t.text, `""`)) // an attribute may have an empty name
}

// similar returns a valid name that the user may have meant by an unknown word, or "".
func similar(word string, inBraces bool) string {
	if d := braceNames[word]; d != nil && d.scopedName() != "" {
		return d.scopedName()
	}
	names := slices.AppendSeq(slices.Collect(maps.Keys(bareNames)), maps.Keys(scopedNames))
	if inBraces {
		names = slices.AppendSeq(names, maps.Keys(braceNames))
	}
	slices.Sort(names)
	return nearest(word, names)
}

// scopedName returns a name of the field with a scope, such as span:name, or "" if there is none.
func (d *definition) scopedName() string {
	if d.names == "service" {
		return "resource.service.name"
	}
	for _, name := range slices.Sorted(strings.FieldsSeq(d.names)) {
		if scopedNames[name] != nil {
			return name
		}
	}
	return ""
}

// nearest returns the name that differs least from a word. It returns "" if all names differ in
// more than a third of its letters.
func nearest(word string, names []string) string {
	return text.Nearest(word, names, (len(word)+1)/3)
}

// isTypo reports whether a word is so similar to a name that the word is probably a misspelling.
func isTypo(word, name string) bool {
	return text.Distance(word, name) <= 1+len(word)/8
}

// ofOneRole reports whether only the rows of f.role have the field.
func (f *field) ofOneRole() bool { return f.role != 0 && !f.parent }
