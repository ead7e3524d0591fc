package query

import (
	"math"
	"slices"
	"strconv"
	"strings"
)

// Where returns a filter that selects the rows of a line of t by the values of by(…). The filter does not include the
// filter of the query that computed t. Where returns "" if t has no groups, or if no filter can select the rows, for
// example because a value is NaN.
func (t *Table) Where(line []Value) string {
	var all []string
	for i, v := range line[:min(t.groups, len(line))] {
		name := t.Columns[i]
		if name == "service" && v.kind == kindString && v.s == "" {
			v = Value{} // Summary replaces a missing service by ""
		}
		part := where(name, v)
		if part == "" {
			return ""
		}
		all = append(all, part)
	}
	if len(all) == 0 && len(line) > 1 && t.Columns[0] == "attribute" && t.Columns[1] == "value" { // t is a table of compare()
		return where("."+attributeName(line[0].s), line[1])
	}
	return strings.Join(all, " && ")
}

// Where returns a filter for the rows in which a field has the given text. For the field service, an empty text
// means nil.
func Where(field, text string) string {
	if text == "" && field == "service" {
		return "service = nil"
	}
	return where(field, stringValue(text))
}

// where returns a filter for the rows in which a field has the given value, or "" if there is no such filter.
func where(field string, v Value) string {
	if v.kind == kindNil && field[0] != '.' && !slices.Contains(ofAllRows, field) {
		return "!(" + field + " != nil)" // if only spans have the field, "= nil" is false for other rows
	}
	if text := v.Literal(); text != "" {
		return field + " = " + text
	}
	return ""
}

// ofAllRows are fields for which "= nil" selects all rows without a value, whatever their role.
var ofAllRows = []string{"service", "name", "target", "message"}

// Literal returns v in the syntax of queries. It returns "" for NaN and infinite numbers, because queries have no
// syntax for them.
func (v Value) Literal() string {
	switch v.kind {
	case kindString, kindTime:
		return quote(v.String())
	case kindLevel:
		return strings.ToLower(v.String())
	case kindFloat:
		if f := v.float(); math.IsInf(f, 0) || math.IsNaN(f) {
			return ""
		}
		return strconv.FormatFloat(v.float(), 'f', -1, 64) // queries have no exponents
	}
	return v.String()
}
