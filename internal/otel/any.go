package otel

import (
	"bytes"
	"cmp"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"
	"unsafe"

	"github.com/entrace-go/entrace/format"
	"github.com/entrace-go/entrace/internal/core/wire"
	"github.com/entrace-go/entrace/internal/text/jsontext"
)

// A Kind is the kind of an [Any]: one of the kinds of OTLP's AnyValue.
type Kind uint8

// The kinds of values.
const (
	Empty Kind = iota
	String
	Bool
	Int
	Float
	Bytes
	List
	Map
)

// An Any is OTLP's AnyValue: the value of an attribute, or the body of a log
// record. Only the field for its kind is used.
type Any struct {
	Kind  Kind
	Bool  bool
	Int   int64
	Float float64
	Text  string // for String and for Bytes
	List  []Any
	Map   []KeyValue
}

// TextAny returns an Any with the text s.
func TextAny(s string) Any { return Any{Kind: String, Text: s} }

// IntAny returns an Any with the integer n.
func IntAny(n int64) Any { return Any{Kind: Int, Int: n} }

// A KeyValue is a key of a Map with its value.
type KeyValue struct {
	Key   string
	Value Any
}

// maxDepth is the maximum nesting depth of a value that is read.
const maxDepth = 100

// An Encoding says how the value of an attribute is stored.
type Encoding uint8

// The encodings of values.
const (
	Native   Encoding = iota // as a value of one of the format's kinds
	JSON                     // as JSON text; the attribute otel.json lists the name
	AnyValue                 // as OTLP/JSON AnyValue text; the attribute otel.anyvalue lists the name
	Duration                 // as nanoseconds; the attribute entrace.duration lists the name
)

// An Attribute is an attribute of the application, under the name that the application gave it.
type Attribute struct {
	Name     string
	Value    format.Value
	Encoding Encoding
}

// errTooDeep is the error for a value that nests deeper than maxDepth.
var errTooDeep = errors.New("values are nested too deeply")

// Any returns the value of a as an Any. An integer that does not fit into an int64 becomes decimal text. A text
// that is invalid in its encoding stays a text.
func (a *Attribute) Any() Any {
	switch a.Encoding {
	case JSON:
		if v, err := ParseJSON(a.Value.Text()); err == nil {
			return v
		}
	case AnyValue:
		if v, err := ParseAnyValue(a.Value.Bytes()); err == nil {
			return v
		}
	}
	return nativeAny(a.Value)
}

func nativeAny(v format.Value) Any {
	switch v.Kind() {
	case format.KindString:
		return TextAny(v.Text())
	case format.KindBytes:
		return Any{Kind: Bytes, Text: string(v.Bytes())}
	case format.KindBool:
		return Any{Kind: Bool, Bool: v.Bool()}
	case format.KindFloat:
		return Any{Kind: Float, Float: v.Float()}
	}
	if n, ok := v.I64(); ok {
		return IntAny(n)
	}
	return TextAny(string(v.AppendDecimal(nil)))
}

// ParseJSON parses JSON. Numbers with a point or an exponent become floats.
func ParseJSON(text string) (v Any, err error) {
	j := jsonText{text: text}
	j.value(&v, 0)
	return v, j.end()
}

// A FieldReader reads the fields of JSON objects.
type FieldReader struct {
	json  jsonText
	name  []byte // the name of the current field, after the names of the objects around it
	value Any
}

// Read calls add for each field of the JSON object in text. It joins the names in nested objects with dots, in at most
// depth levels. The arguments of add are valid until add returns. If the text is invalid, add was called for the fields
// before the error.
func (r *FieldReader) Read(text string, depth int, add func(name []byte, v *Any)) error {
	r.json = jsonText{text: text}
	r.name = r.name[:0]
	if !r.json.next('{') {
		r.json.fail()
	}
	r.fields(depth, add)
	return r.json.end()
}

func (r *FieldReader) fields(depth int, add func(name []byte, v *Any)) {
	outer := len(r.name)
	for n := 0; r.json.more('}', n); n++ {
		r.name = append(r.name[:outer], r.json.key()...)
		if depth > 0 && r.json.next('{') {
			r.name = append(r.name, '.')
			r.fields(depth-1, add)
			continue
		}
		r.json.value(&r.value, 0)
		if r.json.err == nil {
			add(r.name, &r.value)
		}
	}
}

// A jsonText is a JSON text that is being parsed.
type jsonText struct {
	text string
	i    int // the offset of the next byte to read
	err  error
}

var errJSON = errors.New("invalid JSON")

func (j *jsonText) fail() {
	j.err = cmp.Or(j.err, fmt.Errorf("%w at byte %d", errJSON, j.i))
	j.i = len(j.text)
}

// end returns the error of the text, after its value was read.
func (j *jsonText) end() error {
	if j.peek() != 0 || j.i < len(j.text) {
		j.fail()
	}
	return j.err
}

// peek returns the first character after blanks, or 0 at the end.
func (j *jsonText) peek() byte {
	for ; j.i < len(j.text); j.i++ {
		if c := j.text[j.i]; c > ' ' || c != ' ' && c != '\t' && c != '\r' && c != '\n' {
			return c
		}
	}
	return 0
}

// next reports whether c is the next character after blanks. If so, next reads c.
func (j *jsonText) next(c byte) bool {
	is := j.peek() == c
	if is {
		j.i++
	}
	return is
}

// more reports whether another item of a list or an object follows. The first item has the number 0.
func (j *jsonText) more(end byte, n int) bool {
	if j.err != nil || j.next(end) {
		return false
	}
	if n > 0 && !j.next(',') {
		j.fail()
	}
	return j.err == nil
}

// key reads the name of a field, and the colon after it.
func (j *jsonText) key() (name string) {
	if j.next('"') {
		name = j.string()
	} else {
		j.fail()
	}
	if !j.next(':') {
		j.fail()
	}
	return name
}

func (j *jsonText) value(v *Any, depth int) {
	*v = Any{}
	if depth > maxDepth {
		j.err = cmp.Or(j.err, errTooDeep)
		return
	}
	switch c := j.peek(); c {
	case '"':
		j.i++
		v.Kind, v.Text = String, j.string()
	case '[':
		j.i++
		for v.Kind = List; j.more(']', len(v.List)); {
			v.List = append(v.List, Any{})
			j.value(&v.List[len(v.List)-1], depth+1)
		}
	case '{':
		j.i++
		for v.Kind = Map; j.more('}', len(v.Map)); {
			v.Map = append(v.Map, KeyValue{Key: j.key()})
			j.value(&v.Map[len(v.Map)-1].Value, depth+1)
		}
	case 't', 'f', 'n':
		for _, word := range [...]string{"true", "false", "null"} {
			if strings.HasPrefix(j.text[j.i:], word) {
				j.i += len(word)
				if c != 'n' {
					v.Kind, v.Bool = Bool, c == 't'
				}
				return
			}
		}
		j.fail()
	default:
		j.number(v)
	}
}

// string reads a string after its first quote.
func (j *jsonText) string() string {
	from := j.i
	plain := jsontext.Plain(unsafe.Slice(unsafe.StringData(j.text), len(j.text)), from)
	for to := plain; to < len(j.text); to++ {
		switch j.text[to] {
		case '\\':
			to++
		case '"':
			j.i = to + 1
			if to == plain && wire.IsValid(j.text[from:to]) {
				return j.text[from:to]
			}
			var s string
			if json.Unmarshal([]byte(j.text[from-1:j.i]), &s) != nil {
				j.fail()
			}
			return s
		}
	}
	j.fail()
	return ""
}

func (j *jsonText) number(v *Any) {
	from, isInt, dot := j.i, true, -1
scan:
	for ; j.i < len(j.text); j.i++ {
		switch c := j.text[j.i]; {
		case c >= '0' && c <= '9', c == '-', c == '+':
		case c == '.':
			dot = j.i
			isInt = false
		case c == 'e', c == 'E':
			isInt = false
		default:
			break scan
		}
	}
	text := j.text[from:j.i]
	isDigit := func(i int) bool { return i < len(j.text) && j.text[i]-'0' < 10 }
	if strings.HasPrefix(text, "-") {
		from++
	}
	if !isDigit(from) || j.text[from] == '0' && isDigit(from+1) || dot >= 0 && !isDigit(dot+1) {
		j.fail()
		return
	}
	if isInt {
		if n, err := strconv.ParseInt(text, 10, 64); err == nil {
			v.Kind, v.Int = Int, n
			return
		}
	}
	f, err := strconv.ParseFloat(text, 64) // ±Inf if the number is too large
	if errors.Is(err, strconv.ErrSyntax) {
		j.fail()
	}
	v.Kind, v.Float = Float, f
}

// jsonAny is an AnyValue in OTLP/JSON.
type jsonAny struct {
	String *string         `json:"stringValue"`
	Bool   *bool           `json:"boolValue"`
	Int    json.RawMessage `json:"intValue"`
	Double json.RawMessage `json:"doubleValue"`
	Bytes  *string         `json:"bytesValue"`
	Array  *struct {
		Values []*jsonAny `json:"values"`
	} `json:"arrayValue"`
	Map *struct {
		Values []struct {
			Key   string   `json:"key"`
			Value *jsonAny `json:"value"`
		} `json:"values"`
	} `json:"kvlistValue"`
}

// ParseAnyValue parses an AnyValue in OTLP/JSON.
func ParseAnyValue(text []byte) (v Any, err error) {
	var j *jsonAny
	if len(text) > 0 {
		err = json.Unmarshal(text, &j)
	}
	if err == nil {
		v, err = j.any(0)
	}
	return v, err
}

func (j *jsonAny) any(depth int) (v Any, err error) {
	switch {
	case depth > maxDepth:
		return v, errTooDeep
	case j == nil:
	case j.String != nil:
		return TextAny(*j.String), nil
	case j.Bool != nil:
		return Any{Kind: Bool, Bool: *j.Bool}, nil
	case j.Int != nil:
		n, err := strconv.ParseInt(string(bytes.Trim(j.Int, `"`)), 10, 64)
		return IntAny(n), err
	case j.Double != nil:
		f, err := strconv.ParseFloat(string(bytes.Trim(j.Double, `"`)), 64)
		return Any{Kind: Float, Float: f}, err
	case j.Bytes != nil:
		b, err := base64.StdEncoding.DecodeString(*j.Bytes)
		return Any{Kind: Bytes, Text: string(b)}, err
	case j.Array != nil:
		v.Kind = List
		for _, x := range j.Array.Values {
			item, err := x.any(depth + 1)
			if err != nil {
				return v, err
			}
			v.List = append(v.List, item)
		}
	case j.Map != nil:
		v.Kind = Map
		for _, kv := range j.Map.Values {
			item, err := kv.Value.any(depth + 1)
			if err != nil {
				return v, err
			}
			v.Map = append(v.Map, KeyValue{kv.Key, item})
		}
	}
	return v, nil
}

// NewAttribute returns an attribute with a name and a value.
func NewAttribute(name string, v *Any) Attribute {
	a := Attribute{Name: name}
	a.Value, a.Encoding = Stored(v)
	return a
}

// Text returns an attribute with a text.
func Text(name, s string) Attribute {
	v := TextAny(s)
	return NewAttribute(name, &v)
}

// Number returns an attribute with an integer.
func Number(name string, n int64) Attribute {
	return Attribute{Name: name, Value: format.I64Value(n)}
}

// Stored returns the value and the encoding in which v is stored.
func Stored(v *Any) (format.Value, Encoding) {
	switch v.Kind {
	case String:
		if !wire.IsValid(v.Text) {
			return format.BytesValue([]byte(v.Text)), Native
		}
		return format.StringValue(v.Text), Native
	case Bool:
		return format.BoolValue(v.Bool), Native
	case Int:
		return format.I64Value(v.Int), Native
	case Float:
		return format.FloatValue(v.Float), Native
	case Bytes:
		return format.BytesValue([]byte(v.Text)), Native
	}
	if b, ok := appendJSON(nil, v); ok {
		return format.StringValue(string(b)), JSON
	}
	return format.StringValue(string(AppendAnyValue(nil, v))), AnyValue
}

// appendJSON appends v as JSON. It returns false if a reader of the JSON would not get the same kinds of values.
func appendJSON(b []byte, v *Any) (_ []byte, ok bool) {
	switch v.Kind {
	case Empty:
		return append(b, "null"...), true
	case String:
		return jsontext.AppendString(b, v.Text), utf8.ValidString(v.Text)
	case Bool:
		return strconv.AppendBool(b, v.Bool), true
	case Int:
		return strconv.AppendInt(b, v.Int, 10), true
	case Float:
		return jsontext.AppendFloat(b, v.Float)
	case List:
		b = append(b, '[')
		for i := range v.List {
			if i > 0 {
				b = append(b, ',')
			}
			b, ok = appendJSON(b, &v.List[i])
			if !ok {
				return b, false
			}
		}
		return append(b, ']'), true
	case Map:
		seen := make(map[string]bool, len(v.Map))
		b = append(b, '{')
		for i := range v.Map {
			kv := &v.Map[i]
			if seen[kv.Key] || !utf8.ValidString(kv.Key) {
				return b, false
			}
			seen[kv.Key] = true
			if i > 0 {
				b = append(b, ',')
			}
			b = append(jsontext.AppendString(b, kv.Key), ':')
			b, ok = appendJSON(b, &kv.Value)
			if !ok {
				return b, false
			}
		}
		return append(b, '}'), true
	}
	return b, false
}

// AppendAnyValue appends v in OTLP/JSON. A text that is not valid UTF-8 becomes bytes.
func AppendAnyValue(b []byte, v *Any) []byte {
	switch v.Kind {
	case String:
		if utf8.ValidString(v.Text) {
			b = jsontext.AppendSafeString(append(b, `{"stringValue":`...), v.Text)
			break
		}
		fallthrough
	case Bytes:
		b = base64.StdEncoding.AppendEncode(append(b, `{"bytesValue":"`...), []byte(v.Text))
		b = append(b, '"')
	case Bool:
		b = strconv.AppendBool(append(b, `{"boolValue":`...), v.Bool)
	case Int:
		b = append(strconv.AppendInt(append(b, `{"intValue":"`...), v.Int, 10), '"')
	case Float:
		b = jsontext.AppendNumber(append(b, `{"doubleValue":`...), v.Float)
	case List:
		b = append(b, `{"arrayValue":{"values":[`...)
		for i := range v.List {
			if i > 0 {
				b = append(b, ',')
			}
			b = AppendAnyValue(b, &v.List[i])
		}
		return append(b, `]}}`...)
	case Map:
		b = append(b, `{"kvlistValue":{"values":[`...)
		for i := range v.Map {
			if i > 0 {
				b = append(b, ',')
			}
			b = jsontext.AppendSafeString(append(b, `{"key":`...), v.Map[i].Key)
			b = append(AppendAnyValue(append(b, `,"value":`...), &v.Map[i].Value), '}')
		}
		return append(b, `]}}`...)
	default:
		return append(b, `{}`...)
	}
	return append(b, '}')
}

// Display returns v as readable text: a text unchanged, bytes in base64, lists and maps as JSON, or as
// OTLP/JSON if JSON cannot represent them.
func (v *Any) Display() string {
	switch v.Kind {
	case String:
		return v.Text
	case Bytes:
		return base64.StdEncoding.EncodeToString([]byte(v.Text))
	case Float:
		return strconv.FormatFloat(v.Float, 'g', -1, 64)
	}
	if b, ok := appendJSON(nil, v); ok {
		return string(b)
	}
	return string(AppendAnyValue(nil, v))
}

// Size returns the approximate size of v in memory, in bytes.
func (v *Any) Size() int {
	n := 128 + len(v.Text)
	for i := range v.List {
		n += v.List[i].Size()
	}
	for i := range v.Map {
		n += len(v.Map[i].Key) + v.Map[i].Value.Size()
	}
	return n
}

// String returns the name of k.
func (k Kind) String() string {
	names := [...]string{"empty", "string", "bool", "int", "float", "bytes", "list", "map"}
	if int(k) < len(names) {
		return names[k]
	}
	return fmt.Sprint("kind ", uint8(k))
}
