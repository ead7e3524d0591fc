package codec

import (
	"math"
	"slices"
	"strconv"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/entrace-go/entrace/internal/core/wire"
	"github.com/entrace-go/entrace/internal/otel"
	"github.com/entrace-go/entrace/internal/text/jsontext"
)

// json appends the name of the field, and a comma before it if needed, to a JSON object.
func (n *fieldName) json(b []byte) []byte { return append(appendComma(b), n.begin...) }

// tag appends the tag of the field in protobuf.
func (n *fieldName) tag(b []byte, t protowire.Type) []byte {
	return protowire.AppendTag(b, n.number, t)
}

// text returns a string field. U+FFFD replaces bytes that are not UTF-8.
func text[T any](number protowire.Number, key string, at func(*T) *string) field[T] {
	return field[T]{
		number, key, protowire.BytesType,
		func(r *Reader, to *T) { *at(to) = wire.ValidText(r.in.text()) },
		func(b []byte, e Encoding, n *fieldName, from *T) []byte { return appendText(b, e, n, *at(from)) },
	}
}

func appendText(b []byte, e Encoding, n *fieldName, s string) []byte {
	if s == "" {
		return b
	}
	if e == JSON {
		return jsontext.AppendSafeString(n.json(b), s)
	}
	return protowire.AppendString(n.tag(b, protowire.BytesType), s)
}

// id returns a field with the bytes of a trace or span id. Zero means no id.
func id[T any](number protowire.Number, key string, at func(*T) []byte) field[T] {
	return field[T]{
		number, key, protowire.BytesType,
		func(r *Reader, to *T) { r.in.id(at(to)) },
		func(b []byte, e Encoding, n *fieldName, from *T) []byte {
			id := at(from)
			empty := wire.IsZero(id)
			switch {
			case e == JSON && empty:
				return b
			case e == JSON:
				return append(wire.AppendHex(append(n.json(b), '"'), id), '"')
			case empty:
				id = nil // write an empty id, because the field distinguishes spans from log records
			}
			return protowire.AppendBytes(n.tag(b, protowire.BytesType), id)
		},
	}
}

// appendNumber appends a number if it is not 0. In JSON, a number of 64 bits is a string.
func appendNumber(b []byte, e Encoding, n *fieldName, t protowire.Type, v int64) []byte {
	switch {
	case v == 0:
		return b
	case e == JSON && t == protowire.Fixed64Type:
		return append(strconv.AppendUint(append(n.json(b), '"'), uint64(v), 10), '"')
	case e == JSON:
		return strconv.AppendInt(n.json(b), v, 10)
	}
	b = n.tag(b, t)
	switch t {
	case protowire.Fixed32Type:
		return protowire.AppendFixed32(b, uint32(v))
	case protowire.Fixed64Type:
		return protowire.AppendFixed64(b, uint64(v))
	}
	return protowire.AppendVarint(b, uint64(v))
}

// integer returns an integer field of the wire type t.
func integer[T any](number protowire.Number, key string, t protowire.Type, read func(*Reader, *T), get func(*T) int64) field[T] {
	return field[T]{number, key, t, read, func(b []byte, e Encoding, n *fieldName, from *T) []byte { return appendNumber(b, e, n, t, get(from)) }}
}

// count returns a uint32 field.
func count[T any](number protowire.Number, key string, at func(*T) *uint32) field[T] {
	return integer(number, key, protowire.VarintType, func(r *Reader, to *T) { *at(to) = r.in.count() }, func(from *T) int64 { return int64(*at(from)) })
}

// flags returns a fixed32 field.
func flags[T any](number protowire.Number, key string, at func(*T) *uint32) field[T] {
	return integer(number, key, protowire.Fixed32Type, func(r *Reader, to *T) { *at(to) = r.in.fixed32() }, func(from *T) int64 { return int64(*at(from)) })
}

// nano returns a fixed64 field with a time.
func nano[T any](number protowire.Number, key string, get func(*T) int64, set func(*T, int64)) field[T] {
	return integer(number, key, protowire.Fixed64Type, func(r *Reader, to *T) { set(to, int64(r.in.fixed64())) }, get)
}

// enum returns an enum field. In JSON it may be a name instead of a number.
func enum[T any](number protowire.Number, key string, names map[string]int32, get func(*T) int32, set func(*T, int32)) field[T] {
	return integer(number, key, protowire.VarintType, func(r *Reader, to *T) { set(to, r.in.enum(names)) }, func(from *T) int64 { return int64(get(from)) })
}

// part returns a field whose value is a message, such as Span.status. The T that has the field also stores the fields
// of that message. The field is always written.
func part[T any](number protowire.Number, key string, m *message[T]) field[T] {
	return field[T]{number, key, protowire.BytesType, m.read, func(b []byte, e Encoding, n *fieldName, from *T) []byte { return appendMessage(b, e, n, m, from) }}
}

// list returns a field of repeated messages, such as links. The field can only be read. Callers write the messages
// one by one.
func list[T, U any](number protowire.Number, key string, of *message[U], at func(*T) *[]U, attributes func(*U) *otel.Attributes) field[T] {
	return field[T]{
		number, key, protowire.BytesType,
		func(r *Reader, to *T) {
			items := at(to)
			for more := r.in.first(); more; more = r.in.more() {
				r.count()
				// Reuse the memory that an earlier record may have left in the item.
				*items = slices.Grow(*items, 1)
				*items = (*items)[:len(*items)+1]
				item := &(*items)[len(*items)-1]
				attrs := (*attributes(item))[:0]
				*item = *new(U)
				*attributes(item) = attrs
				of.read(r, item)
				attributes(item).Unify()
			}
		},
		func(b []byte, _ Encoding, _ *fieldName, _ *T) []byte { return b },
	}
}

// attributes returns a field of repeated KeyValue messages.
func attributes[T any](number protowire.Number, key string, at func(*T) *otel.Attributes) field[T] {
	return field[T]{
		number, key, protowire.BytesType,
		func(r *Reader, to *T) {
			attrs := at(to)
			for more := r.in.first(); more; more = r.in.more() {
				r.count()
				if a, ok := r.in.quickAttribute(); ok {
					*attrs = append(*attrs, a)
					continue
				}
				var kv otel.KeyValue
				r.pair(&kv, 0)
				*attrs = append(*attrs, otel.NewAttribute(kv.Key, &kv.Value))
			}
		},
		func(b []byte, e Encoding, n *fieldName, from *T) []byte { return appendAttributes(b, e, n, *at(from)) },
	}
}

func appendAttributes(b []byte, e Encoding, n *fieldName, attrs otel.Attributes) []byte {
	if len(attrs) == 0 {
		return b
	}
	if e == JSON {
		b = append(n.json(b), '[')
		for i := range attrs {
			v := attrs[i].Any()
			b = appendPairJSON(appendComma(b), attrs[i].Name, &v)
		}
		return append(b, ']')
	}
	for i := range attrs {
		v := attrs[i].Any()
		from := len(b)
		b = endMessage(appendPair(b, attrs[i].Name, &v), from, n)
	}
	return b
}

// value returns an AnyValue field. An empty value is not written.
func value[T any](number protowire.Number, key string, at func(*T) *otel.Any) field[T] {
	return field[T]{
		number, key, protowire.BytesType,
		func(r *Reader, to *T) { *at(to) = r.value(0) },
		func(b []byte, e Encoding, n *fieldName, from *T) []byte {
			v := at(from)
			switch {
			case v.Kind == otel.Empty:
				return b
			case e == JSON:
				return otel.AppendAnyValue(n.json(b), v)
			}
			start := len(b)
			return endMessage(appendAny(b, v), start, n)
		},
	}
}

// pair reads a KeyValue into kv, which must be empty.
func (r *Reader) pair(kv *otel.KeyValue, depth int) {
	f := r.in.enter(true)
	for i := r.in.field(pairNames, 0); i >= 0; i = r.in.field(pairNames, i+1) {
		if i == pairKey {
			kv.Key = wire.ValidText(r.in.text())
		} else {
			kv.Value = r.value(depth)
		}
	}
	r.in.leave(f)
}

// value reads an AnyValue.
func (r *Reader) value(depth int) (v otel.Any) {
	if depth > maxDepth {
		r.in.fail(ErrDeep)
	}
	f := r.in.enter(true)
	for i := r.in.field(anyNames, 0); i >= 0; i = r.in.field(anyNames, 0) {
		v = otel.Any{Kind: otel.Kind(i + 1)}
		switch v.Kind {
		case otel.String:
			v.Text = r.in.text()
		case otel.Bool:
			v.Bool = r.in.bool()
		case otel.Int:
			v.Int = r.in.int()
		case otel.Float:
			v.Float = r.in.float()
		case otel.Bytes:
			v.Text = r.in.bytes()
		case otel.List, otel.Map:
			r.values(&v, depth)
		}
	}
	r.in.leave(f)
	return v
}

// values reads the values of a list or a map.
func (r *Reader) values(v *otel.Any, depth int) {
	f := r.in.enter(true)
	for i := r.in.field(listNames, 0); i >= 0; i = r.in.field(listNames, 0) {
		for more := r.in.first(); more; more = r.in.more() {
			r.count()
			if v.Kind == otel.List {
				v.List = append(v.List, r.value(depth+1))
				continue
			}
			v.Map = append(v.Map, otel.KeyValue{})
			r.pair(&v.Map[len(v.Map)-1], depth+1)
		}
	}
	r.in.leave(f)
}

func appendPairJSON(b []byte, key string, v *otel.Any) []byte {
	b = jsontext.AppendSafeString(append(append(b, '{'), pairNames[pairKey].begin...), key)
	return append(otel.AppendAnyValue(pairNames[pairValue].json(b), v), '}')
}

// appendPair appends the fields of a KeyValue.
func appendPair(b []byte, key string, v *otel.Any) []byte {
	b = appendText(b, Protobuf, &pairNames[pairKey], key)
	from := len(b)
	return endMessage(appendAny(b, v), from, &pairNames[pairValue])
}

// appendAny appends the fields of an AnyValue.
func appendAny(b []byte, v *otel.Any) []byte {
	if v.Kind == otel.Empty {
		return b
	}
	n := &anyNames[v.Kind-1]
	switch v.Kind {
	case otel.String, otel.Bytes:
		return protowire.AppendString(n.tag(b, protowire.BytesType), v.Text)
	case otel.Bool:
		return protowire.AppendVarint(n.tag(b, protowire.VarintType), protowire.EncodeBool(v.Bool))
	case otel.Int:
		return protowire.AppendVarint(n.tag(b, protowire.VarintType), uint64(v.Int))
	case otel.Float:
		return protowire.AppendFixed64(n.tag(b, protowire.Fixed64Type), math.Float64bits(v.Float))
	}
	from := len(b)
	for i := range v.List {
		at := len(b)
		b = endMessage(appendAny(b, &v.List[i]), at, &listNames[0])
	}
	for i := range v.Map {
		at := len(b)
		b = endMessage(appendPair(b, v.Map[i].Key, &v.Map[i].Value), at, &listNames[0])
	}
	return endMessage(b, from, n)
}
