package heph

import (
	"encoding/base64"
	"encoding/json"
	"math"
	"math/big"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/entrace-go/entrace/format"
	"github.com/entrace-go/entrace/internal/jsontext"
	"github.com/entrace-go/entrace/internal/mapping"
	"github.com/entrace-go/entrace/internal/otel"
)

// A place has the fields of a packet of ours that say where its entry belongs.
type place struct {
	time   string // as attrTime
	sum    uint64
	hasSum bool // it is the last one, of the root
	named  bool // the rest of the name was there
}

// unpack makes an entry of a packet that a packer made, or one that looks so: what
// it does not understand stays an attribute. Times and parent are left to the
// caller. The entry aliases the packet.
func unpack(e *format.TraceEntry, ev *event) (p place) {
	*e = format.TraceEntry{Attributes: e.Attributes[:0]}
	e.Metadata.Level = format.LevelInfo
	name := ev.Description
	types := typesOf(ev.Attributes)
	key, hasKey := "", false
	for i := 0; i < len(ev.Attributes); i++ {
		a := &ev.Attributes[i]
		typ, parts := types.next(a.Name)
		v := valueOf(a.Value, typ)
		if parts > 1 {
			if text, ok := join(ev.Attributes[i:], parts); ok {
				v = valueOf(stringValue(text), typ)
				i += parts - 1
			}
		}
		text, isText := v.Text(), v.Kind() == format.KindString
		number, isNumber := v.U64()
		isNumber = isNumber && a.Value.typ == kindU64
		stored := a.Name
		switch {
		case !strings.HasPrefix(a.Name, "entrace.") && !strings.HasPrefix(a.Name, attrTypes):
		case isTypesPart(a.Name), a.Name == attrID && isNumber, a.Name == attrParent && isNumber, a.Name == attrOpen && isNumber,
			a.Name == attrEncoding && isNumber:
			continue
		case a.Name == attrSum && isNumber:
			p.sum, p.hasSum = number, true
			continue
		case a.Name == attrLine && isNumber && number <= math.MaxUint32:
			e.Metadata.Line = format.Some(uint32(number))
			continue
		case a.Name == attrKey && isText:
			key, hasKey = text, true
			continue
		case a.Name == attrValue && hasKey:
			stored, hasKey = key, false
		case isText && p.take(e, &name, a.Name, text):
			continue
		}
		stored = strings.TrimPrefix(stored, escapePacket)
		e.Attributes = append(e.Attributes, format.Attribute{Name: valid(stored), Value: v})
	}
	e.Metadata.Name = valid(name)
	return p
}

// take takes what an attribute says that is a text.
func (p *place) take(e *format.TraceEntry, name *string, attr, text string) bool {
	switch attr {
	case attrLevel:
		for l := format.LevelTrace; l <= format.LevelError; l++ {
			if l.String() == text {
				e.Metadata.Level = l
				return true
			}
		}
		return false
	case attrTarget:
		e.Metadata.Target = text
	case attrMessage:
		e.Message = format.Some(text)
	case attrModule:
		e.Metadata.ModulePath = format.Some(text)
	case attrFile:
		e.Metadata.File = format.Some(text)
	case attrName:
		if p.named {
			return false
		}
		*name += text
		p.named = true
	case attrTime:
		p.time = text
	default:
		return false
	}
	return true
}

// valid returns s with U+FFFD for what is not UTF-8.
func valid(s string) string {
	if utf8.ValidString(s) {
		return s
	}
	return strings.ToValidUTF8(s, "\ufffd")
}

// textValue returns the value of a text, or of bytes that are none.
func textValue(s string) format.Value {
	if utf8.ValidString(s) {
		return format.StringValue(s)
	}
	return format.BytesValue([]byte(s))
}

// valueOf returns the value that an entry has for v, which is of the type that
// otel.types says, if any.
func valueOf(v value, typ string) format.Value {
	switch v.typ {
	case kindU64:
		if typ == typeBool && v.num <= 1 {
			return format.BoolValue(v.num == 1)
		}
		return format.U64Value(v.num)
	case kindI64:
		return format.I64Value(v.I64())
	case kindF64:
		return format.FloatValue(v.F64())
	case kindString:
		switch typ {
		case typeBytes:
			if b, err := base64.StdEncoding.DecodeString(v.text); err == nil {
				return format.BytesValue(b)
			}
		case typeU128, typeI128:
			if n, ok := wide(v.text, typ == typeI128); ok {
				return n
			}
		}
		return textValue(v.text)
	}
	text, _ := arrayText(v, typ == typeBools)
	return format.StringValue(text)
}

// wide reads a number of 128 bits.
func wide(s string, signed bool) (v format.Value, ok bool) {
	if len(s) > 40 {
		return v, false
	}
	n, ok := new(big.Int).SetString(s, 10)
	if !ok || n.Sign() < 0 && !signed {
		return v, false
	}
	bits := n.BitLen()
	if n.Sign() < 0 {
		bits = new(big.Int).Not(n).BitLen()
	}
	if bits > 128 || signed && bits > 127 {
		return v, false
	}
	if n.Sign() < 0 {
		n.Add(n, new(big.Int).Lsh(big.NewInt(1), 128))
	}
	lo := new(big.Int).And(n, new(big.Int).SetUint64(math.MaxUint64)).Uint64()
	hi := n.Rsh(n, 64).Uint64()
	if signed {
		return format.I128Value(int64(hi), lo), true
	}
	return format.U128Value(hi, lo), true
}

// join puts a text together of its parts.
func join(attrs []attribute, parts int) (string, bool) {
	if parts > len(attrs) {
		return "", false
	}
	size := 0
	for i := range parts {
		a := &attrs[i]
		if a.Value.typ != kindString || i > 0 && a.Name != attrs[0].Name+"."+strconv.Itoa(i) {
			return "", false
		}
		size += len(a.Value.text)
	}
	b := make([]byte, 0, size)
	for i := range parts {
		b = append(b, attrs[i].Value.text...)
	}
	return alias(b), true
}

func isTypesPart(name string) bool {
	rest, ok := strings.CutPrefix(name, attrTypes)
	if !ok || rest == "" {
		return ok
	}
	n, err := strconv.ParseUint(strings.TrimPrefix(rest, "."), 10, 32)
	return err == nil && rest == "."+strconv.FormatUint(n, 10)
}

// types reads otel.types while the attributes go by, which have the same order.
type types struct {
	left  string // from a comma or the brace on
	name  string
	typ   string
	parts int
	ok    bool
}

func typesOf(attrs []attribute) types {
	var t types
	for i := range attrs {
		if attrs[i].Name != attrTypes || attrs[i].Value.typ != kindString {
			continue
		}
		t.left = attrs[i].Value.text
		parts := 1
		for i+parts < len(attrs) && attrs[i+parts].Name == attrTypes+"."+strconv.Itoa(parts) {
			parts++
		}
		if parts > 1 {
			t.left, _ = join(attrs[i:], parts)
		}
		break
	}
	if strings.HasPrefix(t.left, "{") {
		t.read()
	}
	return t
}

// next returns the type of the attribute name, "" if it has none of its own, and
// of how many parts it is.
func (t *types) next(name string) (typ string, parts int) {
	if !t.ok || t.name != name {
		return "", 1
	}
	typ, parts = t.typ, t.parts
	t.read()
	return typ, parts
}

// read reads the next member of the object.
func (t *types) read() {
	t.ok = false
	if len(t.left) < 2 || t.left[0] != '{' && t.left[0] != ',' {
		return
	}
	name, rest, ok := cutJSON(t.left[1:])
	if !ok || !strings.HasPrefix(rest, ":") {
		return
	}
	typ, rest, ok := cutJSON(rest[1:])
	if !ok {
		return
	}
	t.name, t.typ, t.left, t.parts, t.ok = name, typ, rest, 1, true
	if base, parts, ok := strings.Cut(typ, "*"); ok {
		n, err := strconv.ParseUint(parts, 10, 31)
		if err == nil && n > 1 {
			t.typ, t.parts = base, int(n)
		}
	}
}

// cutJSON cuts a JSON string off s.
func cutJSON(s string) (text, rest string, ok bool) {
	if !strings.HasPrefix(s, `"`) {
		return "", s, false
	}
	escaped := false
	for i := 1; i < len(s); i++ {
		switch s[i] {
		case '\\':
			escaped = true
			i++
		case '"':
			if !escaped {
				return s[1:i], s[i+1:], true
			}
			err := json.Unmarshal([]byte(s[:i+1]), &text)
			return text, s[i+1:], err == nil
		}
	}
	return "", s, false
}

// arrays notes which attributes of an entry are texts of arrays.
type arrays struct{ jsons, anys []string }

func (a *arrays) note(name string, encoding otel.Encoding) {
	if encoding == otel.JSON {
		a.jsons = append(a.jsons, name)
	} else {
		a.anys = append(a.anys, name)
	}
}

// add adds the marks that say so to e.
func (a *arrays) add(e *format.TraceEntry) {
	if len(a.jsons) > 0 {
		e.Attributes = append(e.Attributes, format.Attribute{Name: mapping.AttrJSON, Value: format.StringValue(string(jsontext.AppendStrings(nil, a.jsons)))})
	}
	if len(a.anys) > 0 {
		e.Attributes = append(e.Attributes, format.Attribute{Name: mapping.AttrAnyValue, Value: format.StringValue(string(jsontext.AppendStrings(nil, a.anys)))})
	}
}

// jsonNames returns the names of the attributes that otel.json says are JSON.
func jsonNames(attrs []format.Attribute) map[string]bool {
	for i := range attrs {
		if attrs[i].Name != mapping.AttrJSON {
			continue
		}
		var names []string
		if json.Unmarshal(attrs[i].Value.Bytes(), &names) != nil {
			return nil
		}
		all := make(map[string]bool, len(names))
		for _, name := range names {
			all[name] = true
		}
		return all
	}
	return nil
}
