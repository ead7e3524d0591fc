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

// AppendPlace appends the encoding of h without its first field, the message.
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
// appends the parent and the head to B and calls Begin. Then, for each attribute, it calls
// Name and one of the methods for values. At the end it calls End. The zero Encoder encodes
// version 1.
//
// An Encoder is not safe for concurrent use.
type Encoder struct {
	B       []byte // the encoded entries; with Columns, between Begin and End: only the values
	Columns bool   // version 2: sorted names, then values

	countAt int // offset in B of the number of attributes
	count   int
	columns []column
	orders  []order // a cache, made when needed
	other   []byte  // with Columns, between Begin and End: the entries before this one; otherwise: a buffer for values
}

// A column is an attribute of version 2, which stores all names before all values.
type column struct {
	name     string // the key for sorting
	from, to int    // start and end of the value in Encoder.B
}

// Begin begins the attributes.
func (e *Encoder) Begin() {
	e.count = 0
	if e.Columns {
		e.columns = e.columns[:0]
		e.B, e.other = e.other[:0], e.B
		return
	}
	e.countAt = len(e.B)
	e.B = append(e.B, 0)
}

// Restore discards an entry that cannot be ended. b must be the B from before this entry.
func (e *Encoder) Restore(b []byte) { e.B, e.other = b, nil }

// Count returns the number of attributes since Begin.
func (e *Encoder) Count() int { return e.count }

// Name begins an attribute. The name must be valid UTF-8. The Encoder may keep a reference to it.
func (e *Encoder) Name(name string) {
	e.count++
	if e.Columns {
		e.columns = append(e.columns, column{name: name, from: len(e.B)})
		return
	}
	e.B = AppendString(e.B, name)
}

// EncodedName is like Name, for a name that AppendString has encoded already.
func (e *Encoder) EncodedName(name string, encoded []byte) {
	e.count++
	if e.Columns {
		e.columns = append(e.columns, column{name: name, from: len(e.B)})
		return
	}
	e.B = append(e.B, encoded...)
}

// Appended says that the caller itself has appended n attributes with their values to B. Appended is only for
// version 1.
func (e *Encoder) Appended(n int) { e.count += n }

// Column is like Name, for a caller that appends the values to B later. The value will have the offset from in B.
// Column is only for version 2.
func (e *Encoder) Column(name string, from int) {
	e.count++
	e.columns = append(e.columns, column{name: name, from: from})
}

// String adds a String. If s is not valid UTF-8, it adds Bytes, because other programs refuse to read such a
// String.
func (e *Encoder) String(s string) {
	kind := KindString
	if !IsValid(s) {
		kind = KindBytes
	}
	e.Raw(kind, s)
}

// Raw adds a value of KindString or KindBytes. It does not check the text.
func (e *Encoder) Raw(kind Kind, s string) { e.B = AppendString(append(e.B, kind), s) }

// Bytes adds a Bytes value.
func (e *Encoder) Bytes(s string) { e.B = AppendString(append(e.B, KindBytes), s) }

// Text adds a String. The caller knows that b is valid UTF-8.
func (e *Encoder) Text(b []byte) {
	e.B = append(AppendUint(append(e.B, KindString), uint64(len(b))), b...)
}

// Hex adds a String of two lower-case digits for each byte.
func (e *Encoder) Hex(id []byte) {
	e.B = AppendHex(AppendUint(append(e.B, KindString), uint64(2*len(id))), id)
}

// Bool adds a Bool.
func (e *Encoder) Bool(v bool) {
	n := byte(0)
	if v {
		n = 1
	}
	e.B = append(e.B, KindBool, n)
}

// Float adds a Float; n is its bits, as math.Float64bits returns them.
func (e *Encoder) Float(n uint64) {
	e.B = binary.LittleEndian.AppendUint64(append(e.B, KindFloat), n)
}

// U64 adds a U64.
func (e *Encoder) U64(n uint64) { e.B = AppendUint(append(e.B, KindU64), n) }

// I64 adds an I64.
func (e *Encoder) I64(n int64) { e.B = AppendInt(append(e.B, KindI64), n) }

// U128 adds the value hi<<64 | lo.
func (e *Encoder) U128(hi, lo uint64) { e.B = AppendUint128(append(e.B, KindU128), hi, lo) }

// I128 adds the value hi<<64 | lo in two's complement.
func (e *Encoder) I128(hi, lo uint64) { e.B = AppendInt128(append(e.B, KindI128), hi, lo) }

// End ends the entry.
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

// sortColumns appends the attributes of version 2. Attributes with the same name keep their
// order.
func (e *Encoder) sortColumns() {
	c, values := e.columns, e.B
	for i := range c {
		c[i].to = len(values)
		if i > 0 {
			c[i-1].to = c[i].from
		}
	}
	o := e.order(c)
	b := append(e.other, o.encoded...)
	for _, i := range o.sorted {
		b = append(b, values[c[i].from:c[i].to]...)
	}
	e.B, e.other = b, values
	clear(c) // so that the names can be collected
	if cap(values) > maxKeep {
		e.other = nil
	}
}

// An order is the sorted order of the attribute names of one entry. Most entries have the same names as an earlier
// entry. Comparing their names with the cached order is faster than sorting them.
type order struct {
	names   []string
	sorted  []int  // indexes of names, in sorted order
	encoded []byte // the result of AppendNames for the sorted names
}

// An Encoder caches the order of an entry only if the entry has at most maxOrdered attributes, whose names have at
// most maxOrderedSize bytes in all.
const (
	maxOrdered     = 64
	maxOrderedSize = 8 << 10
)

// order returns the order of the columns by their names. It is valid until the next call.
func (e *Encoder) order(c []column) *order {
	at := len(c)
	if at > 0 {
		at += 3*len(c[0].name) + 7*len(c[at-1].name) + 5*len(c[at/2].name)
	}
	if e.orders == nil {
		e.orders = make([]order, 32)
	}
	o := &e.orders[at%len(e.orders)]
	if len(o.names) == len(c) && len(o.encoded) > 0 {
		i := 0
		for i < len(c) && o.names[i] == c[i].name {
			i++
		}
		if i == len(c) {
			return o
		}
	}
	size := 0
	for i := range c {
		size += len(c[i].name)
	}
	if len(c) > maxOrdered || size > maxOrderedSize {
		o = new(order) // not cached
	}
	o.names, o.sorted = o.names[:0], o.sorted[:0]
	for i := range c {
		o.sorted = append(o.sorted, i)
		o.names = append(o.names, c[i].name)
	}
	slices.SortStableFunc(o.sorted, func(x, y int) int { return strings.Compare(c[x].name, c[y].name) })
	o.encoded = AppendNames(o.encoded[:0], len(c), func(i int) string { return c[o.sorted[i]].name })
	return o
}

// AppendNames appends the beginning of the attributes of version 2: their number, their names, and the number of
// their values.
func AppendNames(b []byte, n int, name func(int) string) []byte {
	b = AppendUint(b, uint64(n))
	for i := range n {
		b = AppendString(b, name(i))
	}
	return AppendUint(b, uint64(n))
}

// maxKeep is the largest capacity of a buffer that is kept for later use.
const maxKeep = 1 << 20
