package heph

import (
	"encoding/base64"
	"math"
	"strconv"
	"unicode/utf8"

	"github.com/entrace-go/entrace/format"
	"github.com/entrace-go/entrace/internal/jsontext"
	"github.com/entrace-go/entrace/internal/otel"
)

// maxText is the longest text that Heph's own writer takes.
const maxText = math.MaxUint16 - 1

// A packer makes the attributes of a packet of those of an entry. What Heph has no
// type for is named in types, in the order of the attributes.
type packer struct {
	body  []byte
	types []byte
	text  []byte
}

func (p *packer) reset() { p.body, p.types = p.body[:0], p.types[:0] }

// note says of which type the attribute name is that comes next, in how many
// parts.
func (p *packer) note(name, typ string, parts int) {
	if len(p.types) == 0 {
		p.types = append(p.types, '{')
	} else {
		p.types = append(p.types, ',')
	}
	p.types = append(jsontext.AppendString(p.types, name), `:"`...)
	p.types = append(p.types, typ...)
	if parts > 1 {
		p.types = strconv.AppendInt(append(p.types, '*'), int64(parts), 10)
	}
	p.types = append(p.types, '"')
}

func (p *packer) number(name string, n uint64) {
	p.body = appendAttribute(p.body, &attribute{name, u64Value(n)})
}

func (p *packer) string(name, s string) { p.typed(name, s, "") }

// typed adds a text, which is of the given type if that is not "". What is too
// long goes on in attributes name.1 and so on.
func (p *packer) typed(name, s, typ string) {
	parts := 1
	for rest := s; len(rest) > maxText; parts++ {
		rest = rest[cut(rest):]
	}
	if parts > 1 && typ == "" {
		typ = "string"
	}
	if typ != "" {
		p.note(name, typ, parts)
	}
	p.body = appendParts(p.body, name, s)
}

// appendParts appends a text in as many attributes as it takes.
func appendParts(b []byte, name, s string) []byte {
	for part := 0; ; part++ {
		b = appendPartName(b, name, part)
		if len(s) <= maxText {
			v := stringValue(s)
			return appendValue(b, &v)
		}
		n := cut(s)
		v := stringValue(s[:n])
		b, s = appendValue(b, &v), s[n:]
	}
}

func appendPartName(b []byte, name string, part int) []byte {
	if part == 0 {
		return appendString(b, name)
	}
	return appendString(b, name+"."+strconv.Itoa(part))
}

// cut returns how much of s, which is too long, goes into one text: no rune is cut.
func cut(s string) int {
	for n := maxText; n > maxText-utf8.UTFMax; n-- {
		if utf8.RuneStart(s[n]) {
			return n
		}
	}
	return maxText
}

// Names of types that Heph has none for, and of its own where a name comes twice.
const (
	typeBool  = "bool"
	typeBools = "bool[]"
	typeBytes = "bytes"
	typeU128  = "u128"
	typeI128  = "i128"
)

var kindTypes = [...]string{
	format.KindString: "string", format.KindBytes: typeBytes, format.KindBool: typeBool, format.KindFloat: "f64",
	format.KindU64: "u64", format.KindI64: "i64", format.KindU128: typeU128, format.KindI128: typeI128,
}

// maxName is the longest name that an attribute has in a packet: one that is split
// has a number behind it.
const maxName = maxText - 16

// attribute adds an attribute of an entry. twice says that it is not the only one
// of its name, json that it is a JSON text.
func (p *packer) attribute(a *format.Attribute, twice, json bool) {
	name := a.Name
	if isPacketAttribute(name) {
		name = escapePacket + name
	}
	if len(name) > maxName {
		p.string(attrKey, name)
		name, twice = attrValue, true
	}
	v := a.Value
	typ := ""
	if twice {
		typ = kindTypes[v.Kind()]
	}
	var native value
	switch v.Kind() {
	case format.KindString:
		if json {
			if array, lacking, ok := arrayOf(v.Text()); ok {
				if twice && lacking == "" {
					lacking = array.typ.String()
				}
				if lacking != "" {
					p.note(name, lacking, 1)
				}
				p.body = appendAttribute(p.body, &attribute{name, array})
				return
			}
		}
		p.typed(name, v.Text(), typ)
		return
	case format.KindBytes:
		p.text = base64.StdEncoding.AppendEncode(p.text[:0], v.Bytes())
		p.typed(name, alias(p.text), typeBytes)
		return
	case format.KindU128:
		p.typed(name, string(v.AppendDecimal(nil)), typeU128)
		return
	case format.KindI128:
		p.typed(name, string(v.AppendDecimal(nil)), typeI128)
		return
	case format.KindBool:
		native, typ = u64Value(0), typeBool
		if v.Bool() {
			native = u64Value(1)
		}
	case format.KindFloat:
		native = f64Value(v.Float())
	case format.KindU64:
		n, _ := v.U64()
		native = u64Value(n)
	case format.KindI64:
		n, _ := v.I64()
		native = i64Value(n)
	}
	if typ != "" {
		p.note(name, typ, 1)
	}
	p.body = appendAttribute(p.body, &attribute{name, native})
}

// arrayOf returns the array that a JSON text is, if the text can be made of it
// again, and what type Heph lacks for it.
func arrayOf(text string) (v value, typ string, ok bool) {
	if len(text) < 3 || text[0] != '[' || text[1] == '[' || text[1] == '{' {
		return v, "", false
	}
	a := otel.Attribute{Value: format.StringValue(text), Encoding: otel.JSON}
	list := a.Any()
	if list.Kind != otel.List || len(list.List) == 0 || len(list.List) > math.MaxUint16 {
		return v, "", false
	}
	kind := list.List[0].Kind
	for i := range list.List {
		if list.List[i].Kind != kind || len(list.List[i].Text) > maxText {
			return v, "", false
		}
	}
	switch kind {
	case otel.Int:
		v = collect(list.List, i64Values, func(a *otel.Any) int64 { return a.Int })
	case otel.Float:
		v = collect(list.List, f64Values, func(a *otel.Any) float64 { return a.Float })
	case otel.String:
		v = collect(list.List, stringValues, func(a *otel.Any) string { return a.Text })
	case otel.Bool:
		typ = typeBools
		v = collect(list.List, u64Values, func(a *otel.Any) uint64 {
			if a.Bool {
				return 1
			}
			return 0
		})
	default:
		return v, "", false
	}
	back, encoding := arrayText(v, typ == typeBools)
	return v, typ, encoding == otel.JSON && back == text
}

func collect[T any](list []otel.Any, array func([]T) value, of func(*otel.Any) T) value {
	all := make([]T, len(list))
	for i := range list {
		all[i] = of(&list[i])
	}
	return array(all)
}

// arrayText returns the text as which an entry holds an array: JSON, or OTLP/JSON
// where that cannot hold it.
func arrayText(v value, bools bool) (string, otel.Encoding) {
	b := append(make([]byte, 0, 2+len(v.text)), '[')
	ok := true
	v.Each(func(item value) bool {
		if len(b) > 1 {
			b = append(b, ',')
		}
		switch {
		case bools && item.num <= 1:
			b = strconv.AppendBool(b, item.num == 1)
		case item.typ == kindU64:
			b = strconv.AppendUint(b, item.num, 10)
		case item.typ == kindI64:
			b = strconv.AppendInt(b, item.I64(), 10)
		case item.typ == kindF64:
			b, ok = jsontext.AppendFloat(b, item.F64())
		default:
			ok = utf8.ValidString(item.text)
			b = jsontext.AppendString(b, item.text)
		}
		return ok
	})
	if ok {
		return alias(append(b, ']')), otel.JSON
	}
	list := otel.Any{Kind: otel.List, List: make([]otel.Any, 0, v.Len())}
	v.Each(func(item value) bool {
		a := otel.Any{Kind: otel.String, Text: item.text}
		if item.typ == kindF64 {
			a = otel.Any{Kind: otel.Float, Float: item.F64()}
		}
		list.List = append(list.List, a)
		return true
	})
	return string(otel.AppendAnyValue(nil, &list)), otel.AnyValue
}
