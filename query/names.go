package query

import (
	"strings"

	"github.com/entrace-go/entrace/format"
	"github.com/entrace-go/entrace/internal/mapping"
)

// FieldOf returns how a query writes the attribute that is stored under a name, "" if it is none
// of the application's.
func FieldOf(stored string) string {
	name, own := mapping.UserName(stored)
	if !own {
		return ""
	}
	return "." + attributeName(name)
}

// attributeName returns the name of an attribute as a query writes it behind the dot: in quotes if
// it must.
func attributeName(name string) string {
	for _, c := range name {
		if c <= ' ' || strings.ContainsRune(`(){}[]=<>!~|&,"'+-*/%^`+"`", c) || c == 0x7f {
			return quote(name)
		}
	}
	return name
}

// KeyOf returns the name under which the attribute is stored that a query writes so, and whether
// it is one.
func KeyOf(field string) (stored string, ok bool) {
	for _, scope := range []string{"span.", "resource.", "log.", "event.", "parent.", "."} {
		name, ok := strings.CutPrefix(field, scope)
		if !ok {
			continue
		}
		if q, err := Parse("." + name + " = nil"); err != nil || q.root == nil {
			return "", false
		}
		return strings.ReplaceAll(strings.Trim(name, `"`), `\"`, `"`), name != ""
	}
	return "", false
}

// Literal returns how a query writes a value of an attribute.
func Literal(v format.Value) string {
	if v.Kind() == format.KindString {
		return quote(v.Text())
	}
	return v.String()
}
