package wire

import (
	"encoding/binary"
	"slices"
	"strings"
)

// A Head is the part of an entry between its parent and its attributes. The texts must
// be valid UTF-8.
type Head struct {
	Message             string
	Name, Target        string
	Module, File        string
	Line                uint32
	HasMessage, HasFile bool
	HasModule, HasLine  bool
	Level               uint8
}

// Append appends the encoding of h.
func (h *Head) Append(b []byte) []byte {
	return h.AppendPlace(appendOption(b, h.HasMessage, h.Message))
}

// AppendPlace appends the encoding of h without the message, which comes first.
func (h *Head) AppendPlace(b []byte) []byte {
	b = AppendString(b, h.Name)
	b = AppendString(b, h.Target)
	b = append(b, h.Level)
	b = appendOption(b, h.HasModule, h.Module)
	b = appendOption(b, h.HasFile, h.File)
	if !h.HasLine {
		return append(b, 0)
	}
	return AppendUint(append(b, 1), uint64(h.Line))
}

func appendOption(b []byte, has bool, s string) []byte {
	if !has {
		return append(b, 0)
	}
	return AppendString(append(b, 1), s)
}

// An Encoder appends entries to B, one after the other. For each entry the caller
// appends the parent and the head to B, calls Begin, then Name and one of the methods
// for values for each attribute, and End. The zero Encoder encodes version 1.
//
// An Encoder is not safe for concurrent use.
type Encoder struct {
	B       []byte
	Columns bool // version 2: sorted names, then values

	countAt int // where the number of attributes goes
	count   int
	columns []column
	values  []byte
}

// A column is an attribute of version 2, where names and values lie apart.
type column struct {
	name     string // as it is sorted
	from, to int    // in values
}

// Begin begins the attributes.
func (e *Encoder) Begin() {
	e.countAt, e.count = len(e.B), 0
	if e.Columns {
		e.columns, e.values = e.columns[:0], e.values[:0]
		return
	}
	e.B = append(e.B, 0)
}

// Count returns the number of attributes since Begin.
func (e *Encoder) Count() int { return e.count }

// Name begins an attribute, whose name must be valid UTF-8. The Encoder may keep it
// until End.
func (e *Encoder) Name(name string) {
	e.count++
	if e.Columns {
		e.columns = append(e.columns, column{name: name, from: len(e.values)})
		return
	}
	e.B = AppendString(e.B, name)
}

// EncodedName is Name with the encoding of the name, which AppendString made.
func (e *Encoder) EncodedName(name string, encoded []byte) {
	if e.Columns {
		e.Name(name)
		return
	}
	e.count++
	e.B = append(e.B, encoded...)
}

// out returns the buffer for a value.
func (e *Encoder) out() []byte {
	if e.Columns {
		return e.values
	}
	return e.B
}

// put ends an attribute.
func (e *Encoder) put(b []byte) {
	if e.Columns {
		e.values = b
		e.columns[len(e.columns)-1].to = len(b)
		return
	}
	e.B = b
}

// String adds a value. It becomes Bytes if it is not valid UTF-8, because other readers
// refuse such a String.
func (e *Encoder) String(s string) {
	kind := KindString
	if !IsValid(s) {
		kind = KindBytes
	}
	e.put(AppendString(append(e.out(), kind), s))
}

// Raw adds a value of KindString or KindBytes as it is.
func (e *Encoder) Raw(kind Kind, s string) { e.put(AppendString(append(e.out(), kind), s)) }

// Bytes adds a value.
func (e *Encoder) Bytes(s string) { e.put(AppendString(append(e.out(), KindBytes), s)) }

// Text adds a String that is known to be valid UTF-8.
func (e *Encoder) Text(b []byte) {
	e.put(append(AppendUint(append(e.out(), KindString), uint64(len(b))), b...))
}

// Hex adds a String of two lower-case digits for each byte.
func (e *Encoder) Hex(id []byte) {
	e.put(AppendHex(AppendUint(append(e.out(), KindString), uint64(2*len(id))), id))
}

// Bool adds a value.
func (e *Encoder) Bool(v bool) {
	n := byte(0)
	if v {
		n = 1
	}
	e.put(append(e.out(), KindBool, n))
}

// Float adds a value that has the bits n.
func (e *Encoder) Float(n uint64) {
	e.put(binary.LittleEndian.AppendUint64(append(e.out(), KindFloat), n))
}

// U64 adds a value.
func (e *Encoder) U64(n uint64) { e.put(AppendUint(append(e.out(), KindU64), n)) }

// I64 adds a value.
func (e *Encoder) I64(n int64) { e.put(AppendInt(append(e.out(), KindI64), n)) }

// U128 adds the value hi<<64 | lo.
func (e *Encoder) U128(hi, lo uint64) { e.put(AppendUint128(append(e.out(), KindU128), hi, lo)) }

// I128 adds the value hi<<64 | lo in two's complement.
func (e *Encoder) I128(hi, lo uint64) { e.put(AppendInt128(append(e.out(), KindI128), hi, lo)) }

// End ends an entry.
func (e *Encoder) End() {
	switch {
	case e.Columns:
		e.sortColumns()
	case e.count < Tag16:
		e.B[e.countAt] = byte(e.count)
	default:
		n := AppendUint(nil, uint64(e.count))
		e.B = slices.Insert(e.B, e.countAt+1, n[1:]...)
		e.B[e.countAt] = n[0]
	}
}

// sortColumns appends the attributes of version 2. Those of one name keep their order.
func (e *Encoder) sortColumns() {
	c := e.columns
	for i := 1; i < len(c); i++ { // most come in order, or are few
		if i == 32 && len(c) > 64 {
			slices.SortStableFunc(c, func(x, y column) int { return strings.Compare(x.name, y.name) })
			break
		}
		for j := i; j > 0 && c[j].name < c[j-1].name; j-- {
			c[j], c[j-1] = c[j-1], c[j]
		}
	}
	b := AppendNames(e.B, c, func(c *column) string { return c.name })
	for i := range c {
		b = append(b, e.values[c[i].from:c[i].to]...)
	}
	e.B = b
	clear(c) // it keeps no names
	if cap(e.values) > maxKeep {
		e.values = nil
	}
}

// AppendNames appends what precedes the values of version 2, which follow in the order of
// the list.
func AppendNames[T any](b []byte, list []T, name func(*T) string) []byte {
	b = AppendUint(b, uint64(len(list)))
	for i := range list {
		b = AppendString(b, name(&list[i]))
	}
	return AppendUint(b, uint64(len(list)))
}

// maxKeep is how large a buffer is kept for later use.
const maxKeep = 1 << 20
