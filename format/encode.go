package format

import (
	"encoding/binary"
	"math"
	"unicode/utf8"
)

// The first bytes of a number too large for one byte. Part of the file format.
const (
	tag16  = 251
	tag32  = 252
	tag64  = 253
	tag128 = 254
)

// appendUint appends n in its shortest form.
func appendUint(b []byte, n uint64) []byte {
	switch {
	case n < tag16:
		return append(b, byte(n))
	case n <= math.MaxUint16:
		return append(b, tag16, byte(n), byte(n>>8))
	case n <= math.MaxUint32:
		return binary.LittleEndian.AppendUint32(append(b, tag32), uint32(n))
	}
	return binary.LittleEndian.AppendUint64(append(b, tag64), n)
}

func appendUint128(b []byte, hi, lo uint64) []byte {
	if hi == 0 {
		return appendUint(b, lo)
	}
	b = binary.LittleEndian.AppendUint64(append(b, tag128), lo)
	return binary.LittleEndian.AppendUint64(b, hi)
}

func appendInt(b []byte, n int64) []byte { return appendUint(b, uint64(n<<1)^uint64(n>>63)) }

func appendInt128(b []byte, hi, lo uint64) []byte {
	sign := uint64(int64(hi) >> 63)
	return appendUint128(b, (hi<<1|lo>>63)^sign, lo<<1^sign)
}

func appendString(b []byte, s string) []byte { return append(appendUint(b, uint64(len(s))), s...) }

// AppendUint appends an unsigned number as the formats have it, in its shortest
// form.
func AppendUint(b []byte, n uint64) []byte { return appendUint(b, n) }

// AppendString appends a text as the formats have it: its length in bytes, then
// the bytes.
func AppendString(b []byte, s string) []byte { return appendString(b, s) }

// AppendText appends the value of an attribute that is a text: a String, or Bytes
// when s is not valid UTF-8, which other readers refuse.
func AppendText(b []byte, s string) []byte {
	if isASCII(s) || utf8.ValidString(s) {
		b = append(b, byte(KindString))
	} else {
		b = append(b, byte(KindBytes))
	}
	return appendString(b, s)
}

// AppendValue appends the value of an attribute. A String must be valid UTF-8.
func AppendValue(b []byte, v *Value) []byte { return appendValue(b, v) }

func appendOptionalString(b []byte, s Optional[string]) []byte {
	if !s.Valid {
		return append(b, 0)
	}
	return appendString(append(b, 1), s.Value)
}

// appendValue appends the encoding of v, an EnValue.
func appendValue(b []byte, v *Value) []byte {
	b = append(b, byte(v.kind))
	switch v.kind {
	case KindString, KindBytes:
		b = appendString(b, v.Text())
	case KindBool:
		b = append(b, byte(v.lo))
	case KindFloat:
		b = binary.LittleEndian.AppendUint64(b, v.lo)
	case KindU64:
		b = appendUint(b, v.lo)
	case KindI64:
		b = appendInt(b, int64(v.lo))
	case KindU128:
		b = appendUint128(b, v.hi, v.lo)
	case KindI128:
		b = appendInt128(b, v.hi, v.lo)
	}
	return b
}

// appendHead appends what comes between parent and attributes.
func appendHead(b []byte, e *TraceEntry) []byte {
	b = appendOptionalString(b, e.Message)
	b = appendString(b, e.Metadata.Name)
	b = appendString(b, e.Metadata.Target)
	b = append(b, byte(e.Metadata.Level))
	b = appendOptionalString(b, e.Metadata.ModulePath)
	b = appendOptionalString(b, e.Metadata.File)
	if !e.Metadata.Line.Valid {
		return append(b, 0)
	}
	return appendUint(append(b, 1), uint64(e.Metadata.Line.Value))
}

// AppendTraceEntry appends the encoding of e in version v to b and returns the
// extended slice. In version 2 e.Attributes must be sorted by name, see
// [SortAttributes]: AppendTraceEntry panics if they are not. It panics on an
// unknown version or level, too. It does not look at the text, which every
// other reader wants to be valid UTF-8.
func AppendTraceEntry(b []byte, v Version, e *TraceEntry) []byte {
	if !v.known() {
		panic("format: AppendTraceEntry in an unknown version")
	}
	if e.Metadata.Level >= numLevels {
		panic("format: AppendTraceEntry with an unknown level")
	}
	b = appendHead(appendUint(b, uint64(e.Parent)), e)
	n := uint64(len(e.Attributes))
	b = appendUint(b, n)
	if !v.hasAttrColumns() {
		for i := range e.Attributes {
			a := &e.Attributes[i]
			b = appendValue(appendString(b, a.Name), &a.Value)
		}
		return b
	}
	if !isSorted(e.Attributes) {
		panic("format: AppendTraceEntry of version 2 with attributes that are not sorted")
	}
	for i := range e.Attributes {
		b = appendString(b, e.Attributes[i].Name)
	}
	b = appendUint(b, n)
	for i := range e.Attributes {
		b = appendValue(b, &e.Attributes[i].Value)
	}
	return b
}

// AppendPoolEntry appends the encoding of p to b and returns the extended slice.
func AppendPoolEntry(b []byte, p PoolEntry) []byte {
	b = appendUint(b, uint64(len(p.Children)))
	for _, id := range p.Children {
		b = appendUint(b, uint64(id))
	}
	return b
}

// AppendMoved appends the encoding of an entry, such as [File.AppendRaw] returns,
// below another parent.
func AppendMoved(b, raw []byte, parent uint32) []byte {
	n := 1
	if len(raw) > 0 {
		switch raw[0] {
		case tag16:
			n = 3
		case tag32:
			n = 5
		}
	}
	return append(appendUint(b, uint64(parent)), raw[min(n, len(raw)):]...)
}
