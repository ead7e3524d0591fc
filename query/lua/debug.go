package lua

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	vm "github.com/yuin/gopher-lua"

	"github.com/entrace-go/entrace/format"
)

// The functions of this file format values as Rust's trait Debug does, because scripts search for
// texts in that output.

// levelNames are the levels in this format.
var levelNames = [...]string{"Trace", "Debug", "Info", "Warn", "Error"}

// appendDebug appends an entry in this format.
func (t *thread) appendDebug(b []byte, id uint32) []byte {
	e := t.entry(id)
	m := &e.Metadata
	b = appendQuoted(append(b, "Entry { meta: MetadataRefContainer { name: "...), m.Name)
	b = appendQuoted(append(b, ", target: "...), m.Target)
	b = append(append(b, ", level: "...), levelNames[min(int(m.Level), len(levelNames)-1)]...)
	b = appendOption(append(b, ", module_path: "...), m.ModulePath)
	b = appendOption(append(b, ", file: "...), m.File)
	b = append(b, ", line: "...)
	if m.Line.Valid {
		b = append(strconv.AppendUint(append(b, "Some("...), uint64(m.Line.Value), 10), ')')
	} else {
		b = append(b, "None"...)
	}
	b = append(b, " }, attrs: ["...)
	for i := range e.Attributes {
		if i > 0 {
			b = append(b, ", "...)
		}
		b = appendQuoted(append(b, '('), e.Attributes[i].Name)
		b = append(appendDebugValue(append(b, ", "...), e.Attributes[i].Value), ')')
	}
	b = append(b, "], children: ["...)
	for i, kid := range t.children(id) {
		if i > 0 {
			b = append(b, ", "...)
		}
		b = strconv.AppendUint(b, uint64(kid), 10)
	}
	return append(b, "] }"...)
}

func appendOption(b []byte, s format.Optional[string]) []byte {
	if !s.Valid {
		return append(b, "None"...)
	}
	return append(appendQuoted(append(b, "Some("...), s.Value), ')')
}

func appendDebugValue(b []byte, v format.Value) []byte {
	b = append(append(b, v.Kind().String()...), '(')
	switch v.Kind() {
	case format.KindString:
		b = appendQuoted(b, v.Text())
	case format.KindBytes:
		b = append(b, '[')
		for i, c := range v.Bytes() {
			if i > 0 {
				b = append(b, ", "...)
			}
			b = strconv.AppendUint(b, uint64(c), 10)
		}
		b = append(b, ']')
	case format.KindBool:
		b = strconv.AppendBool(b, v.Bool())
	case format.KindFloat:
		b = append(b, debugFloat(v.Float())...)
	default:
		b = v.AppendDecimal(b)
	}
	return append(b, ')')
}

// debugFloat formats a number with a point, or with an exponent if it is very large or small.
func debugFloat(f float64) string {
	switch a := math.Abs(f); {
	case math.IsNaN(f):
		return "NaN"
	case math.IsInf(f, 0):
		return strings.TrimPrefix(strings.ToLower(fmt.Sprint(f)), "+")
	case a != 0 && (a < 1e-4 || a >= 1e16):
		s := strconv.FormatFloat(f, 'e', -1, 64)
		mantissa, exponent, _ := strings.Cut(s, "e")
		sign := ""
		if exponent[0] == '-' {
			sign = "-"
		}
		return mantissa + "e" + sign + strings.TrimLeft(exponent[1:], "0")
	}
	s := strconv.FormatFloat(f, 'f', -1, 64)
	if !strings.Contains(s, ".") {
		s += ".0"
	}
	return s
}

// displayFloat formats a number without an exponent.
func displayFloat(f float64) string {
	if math.IsNaN(f) || math.IsInf(f, 0) {
		return debugFloat(f)
	}
	return strconv.FormatFloat(f, 'f', -1, 64)
}

// appendQuoted appends a text in quotes.
func appendQuoted(b []byte, s string) []byte {
	b = append(b, '"')
	for _, r := range s {
		switch r {
		case '"', '\\':
			b = append(b, '\\', byte(r))
		case '\n':
			b = append(b, `\n`...)
		case '\r':
			b = append(b, `\r`...)
		case '\t':
			b = append(b, `\t`...)
		case 0:
			b = append(b, `\0`...)
		default:
			if unicode.IsPrint(r) && !unicode.In(r, unicode.Mn, unicode.Me) {
				b = utf8.AppendRune(b, r)
			} else {
				b = fmt.Appendf(b, `\u{%x}`, r)
			}
		}
	}
	return append(b, '"')
}

// debugValue formats a Lua value with its kind.
func debugValue(v vm.LValue) string {
	switch v := v.(type) {
	case *vm.LNilType:
		return "Nil"
	case vm.LBool:
		return "Boolean(" + v.String() + ")"
	case vm.LString:
		return "String(" + string(appendQuoted(nil, string(v))) + ")"
	case vm.LNumber:
		if isInteger(float64(v)) {
			return "Integer(" + strconv.FormatInt(int64(v), 10) + ")"
		}
		return "Number(" + debugFloat(float64(v)) + ")"
	case *vm.LTable:
		return fmt.Sprintf("Table(Ref(%p))", v)
	case *vm.LFunction:
		return fmt.Sprintf("Function(Ref(%p))", v)
	}
	return v.Type().String()
}

// isInteger reports whether a number is a whole number that fits into an int64, and not -0.
func isInteger(f float64) bool {
	return f == math.Trunc(f) && f >= -1<<63 && f < 1<<63 && (f != 0 || !math.Signbit(f))
}

// pretty formats a table on several lines, with sorted keys.
func pretty(b *strings.Builder, v vm.LValue, indent string, seen map[*vm.LTable]bool) {
	t, ok := v.(*vm.LTable)
	switch {
	case !ok:
		b.WriteString(prettyScalar(v))
		return
	case seen[t] || len(indent) > 2*maxNesting:
		fmt.Fprintf(b, "table: %p", t)
		return
	}
	seen[t] = true
	type pair struct{ k, v vm.LValue }
	var pairs []pair
	t.ForEach(func(k, v vm.LValue) { pairs = append(pairs, pair{k, v}) })
	if len(pairs) == 0 {
		b.WriteString("{}")
		return
	}
	slices.SortStableFunc(pairs, func(x, y pair) int { return compareKeys(x.k, y.k) })
	isList := true
	for i, p := range pairs {
		n, ok := p.k.(vm.LNumber)
		isList = isList && ok && float64(n) == float64(i+1)
	}
	b.WriteString("{\n")
	for _, p := range pairs {
		b.WriteString(indent + "  ")
		if !isList {
			if s, ok := p.k.(vm.LString); ok && isIdentifier(string(s)) {
				b.WriteString(string(s))
			} else {
				b.WriteString("[" + prettyScalar(p.k) + "]")
			}
			b.WriteString(" = ")
		}
		pretty(b, p.v, indent+"  ", seen)
		b.WriteString(",\n")
	}
	b.WriteString(indent + "}")
}

func prettyScalar(v vm.LValue) string {
	switch v := v.(type) {
	case vm.LString:
		return string(appendQuoted(nil, string(v)))
	case vm.LNumber:
		if isInteger(float64(v)) {
			return strconv.FormatInt(int64(v), 10)
		}
		return displayFloat(float64(v))
	}
	return v.String()
}

// compareKeys compares table keys. The order is nil, booleans, numbers, texts, then all others. This is also the
// order of gopher-lua's numbers of types.
func compareKeys(x, y vm.LValue) int {
	a, isNumber := x.(vm.LNumber)
	b, both := y.(vm.LNumber)
	if isNumber && both {
		return cmp.Compare(a, b)
	}
	return cmp.Or(cmp.Compare(x.Type(), y.Type()), strings.Compare(x.String(), y.String()))
}

func isIdentifier(s string) bool {
	for i, c := range []byte(s) {
		if c != '_' && (c|0x20 < 'a' || c|0x20 > 'z') && (i == 0 || c < '0' || c > '9') {
			return false
		}
	}
	return s != ""
}
