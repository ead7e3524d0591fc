package format

import (
	"encoding/binary"
	"math"
	"slices"
	"strconv"
	"unsafe"

	"github.com/entrace-go/entrace/internal/core/wire"
)

// DefaultMaxEntrySize is the default limit for the size of an entry, in bytes. Input may be hostile: before a
// reader allocates memory for a length, it compares the length with this limit and with the number of bytes that
// are left.
const DefaultMaxEntrySize = 64 << 20

// A decoder is a cursor over the encoding of entries. It reads the encoding that encode.go writes. It keeps the first
// error, so that a caller can read all fields of an entry before it checks for an error. After an error, every read
// returns a zero value.
//
// Invariants: 0 <= off <= len(b); after an error off == len(b).
type decoder struct {
	b       []byte
	off     int
	base    int64 // offset of b[0] in the file
	entry   int64 // the id of the entry that is decoded, or noEntry
	version Version
	maxSize int  // the maximum size of an entry
	whole   bool // b is a complete entry, so a read past its end is damage

	index   int // the index of the attribute that is decoded; -1 outside of attributes
	err     error
	short   bool // a read went past the end of b; not set if err is set
	need    int  // if short: b must have at least this many bytes
	stopped int  // if short: the offset in b of the incomplete field
	missing string
	length  lengthError // if short and Claimed is not 0: a length in the input that is larger than the rest of b
	longer  bool        // a number was not in its shortest form
}

// reset prepares d to decode the entry with the given id from b. base is the offset of b in the file.
func (d *decoder) reset(b []byte, base, id int64) {
	d.b, d.off, d.base, d.entry = b, 0, base, id
	d.index, d.err, d.short, d.longer = -1, nil, false, false
}

func (d *decoder) place(field string) string {
	if d.index >= 0 {
		return field + "[" + strconv.Itoa(d.index) + "]"
	}
	return field
}

// fail records damage at b[at].
func (d *decoder) fail(at int, field string, err error) {
	if d.err == nil && !d.short {
		d.err = &CorruptError{Offset: d.base + int64(at), Entry: d.entry, Field: d.place(field), Err: err}
	}
	d.off = len(d.b)
}

// stop records that the field at b[at] needs n bytes, but b has fewer left. The parameter claimed is the length that
// the input claims for the field, or 0 if the field has no length.
func (d *decoder) stop(at int, field string, n, claimed uint64) {
	switch {
	case d.err != nil || d.short:
	case d.whole:
		if claimed == 0 {
			claimed = n
		}
		d.fail(at, field, &lengthError{Claimed: claimed, Remaining: uint64(len(d.b) - at)})
	case n > uint64(d.maxSize) || at > d.maxSize-int(n):
		d.fail(at, field, &lengthError{Claimed: claimed, Remaining: uint64(max(d.maxSize-at, 0))})
	default:
		d.short, d.missing = true, d.place(field)
		d.need, d.stopped = at+int(n), at
		d.length = lengthError{}
		if claimed > 0 {
			d.length = lengthError{Claimed: claimed, Remaining: uint64(len(d.b) - at)}
		}
	}
	d.off = len(d.b)
}

// Err returns the first error since reset. If a read went past the end of b, the error is a [TruncatedError]. Its
// Offset is base, the beginning of the entry. Outside of entries, Offset is the beginning of the field.
func (d *decoder) Err() error {
	if d.err != nil || !d.short {
		return d.err
	}
	e := &TruncatedError{Offset: d.base, Entry: d.entry, Field: d.missing}
	if d.entry == noEntry {
		e.Offset += int64(d.stopped)
	}
	if d.length.Claimed > 0 {
		l := d.length
		e.length = &l
	}
	return e
}

// Uint reads a number of at most bits bits. The parameter bits is 32 or 64.
func (d *decoder) Uint(field string, bits int) uint64 {
	if d.off < len(d.b) && d.b[d.off] < wire.Tag16 {
		d.off++
		return uint64(d.b[d.off-1])
	}
	return d.uintSlow(field, bits)
}

func (d *decoder) uintSlow(field string, bits int) uint64 {
	at := d.off
	if at >= len(d.b) {
		d.stop(at, field, 1, 0)
		return 0
	}
	rest := d.b[at+1:]
	switch tag := d.b[at]; {
	case tag == wire.Tag16 && len(rest) >= 2:
		n := uint64(binary.LittleEndian.Uint16(rest))
		d.off, d.longer = at+3, d.longer || n < wire.Tag16
		return n
	case tag == wire.Tag32 && len(rest) >= 4:
		n := uint64(binary.LittleEndian.Uint32(rest))
		d.off, d.longer = at+5, d.longer || n <= math.MaxUint16
		return n
	case tag == wire.Tag64 && bits >= 64 && len(rest) >= 8:
		n := binary.LittleEndian.Uint64(rest)
		d.off, d.longer = at+9, d.longer || n <= math.MaxUint32
		return n
	case tag <= wire.Tag32 || tag == wire.Tag64 && bits >= 64:
		d.stop(at, field, 1+2<<(tag-wire.Tag16), 0)
		return 0
	default: // a tag of a larger number, or 255, which is never valid
		d.fail(at, field, &tagError{uint64(tag), errBadNumber})
		return 0
	}
}

func (d *decoder) uint128(field string) (hi, lo uint64) {
	if d.off >= len(d.b) || d.b[d.off] != wire.Tag128 {
		return 0, d.Uint(field, 64)
	}
	at := d.off
	if len(d.b)-at < 17 {
		d.stop(at, field, 17, 0)
		return 0, 0
	}
	lo = binary.LittleEndian.Uint64(d.b[at+1:])
	hi = binary.LittleEndian.Uint64(d.b[at+9:])
	d.off, d.longer = at+17, d.longer || hi == 0
	return hi, lo
}

// Len reads the number of the items that follow. Each item has at least minSize bytes: Len fails if b has too few
// bytes left for all items.
func (d *decoder) Len(field string, minSize int) int {
	at := d.off
	n := d.Uint(field, 64)
	if n > uint64(len(d.b)-d.off)/uint64(minSize) {
		if hi := uint64(math.MaxUint64) / uint64(minSize); n > hi {
			d.fail(at, field, &lengthError{Claimed: n, Remaining: uint64(len(d.b) - d.off)})
			return 0
		}
		d.stop(d.off, field, n*uint64(minSize), n)
		return 0
	}
	return int(n)
}

// String reads a string, which aliases b.
func (d *decoder) String(field string) string {
	n := d.Len(field, 1)
	if n == 0 {
		return ""
	}
	s := unsafe.String(&d.b[d.off], n)
	d.off += n
	return s
}

// flag reads a byte that must be 0 or 1. The parameter bad is the error for any other byte.
func (d *decoder) flag(field string, bad error) bool {
	if d.off >= len(d.b) {
		d.stop(d.off, field, 1, 0)
		return false
	}
	c := d.b[d.off]
	if c > 1 {
		d.fail(d.off, field, &tagError{uint64(c), bad})
		return false
	}
	d.off++
	return c == 1
}

func (d *decoder) optionalString(field string) Optional[string] {
	if !d.flag(field, errBadOption) {
		return Optional[string]{}
	}
	return Some(d.String(field))
}

// enum reads the variant of an enum that has n variants. The parameter bad is the error for any other number.
func (d *decoder) enum(field string, n uint64, bad error) uint8 {
	at := d.off
	v := d.Uint(field, 32)
	if v >= n {
		d.fail(at, field, &tagError{v, bad})
		return 0
	}
	return uint8(v)
}

func (d *decoder) metadata(m *Metadata) {
	m.Name = d.String("name")
	m.Target = d.String("target")
	m.Level = Level(d.enum("level", numLevels, errBadLevel))
	m.ModulePath = d.optionalString("module_path")
	m.File = d.optionalString("file")
	m.Line = Optional[uint32]{}
	if d.flag("line", errBadOption) {
		m.Line = Some(uint32(d.Uint("line", 32)))
	}
}

func (d *decoder) value(field string, v *Value) {
	*v = Value{kind: Kind(d.enum(field, numKinds, errBadKind))}
	switch v.kind {
	case KindString, KindBytes:
		if n := d.Len(field, 1); n > 0 {
			v.text, v.lo = &d.b[d.off], uint64(n)
			d.off += n
		}
	case KindBool:
		if d.flag(field, errBadBool) {
			v.lo = 1
		}
	case KindFloat:
		if len(d.b)-d.off < 8 {
			d.stop(d.off, field, 8, 0)
			return
		}
		v.lo = binary.LittleEndian.Uint64(d.b[d.off:])
		d.off += 8
	case KindU64:
		v.lo = d.Uint(field, 64)
	case KindI64:
		n := d.Uint(field, 64)
		v.lo = n>>1 ^ -(n & 1)
	case KindU128:
		v.hi, v.lo = d.uint128(field)
	case KindI128:
		hi, lo := d.uint128(field)
		sign := -(lo & 1)
		v.hi, v.lo = hi>>1^sign, (lo>>1|hi<<63)^sign
	}
}

// parent reads the id of the parent of the entry d.entry.
func (d *decoder) parent() uint32 {
	at := d.off
	p := d.Uint("parent", 32)
	if d.entry >= 0 && p != 0 && int64(p) >= d.entry && d.off > at {
		d.fail(at, "parent", &tagError{p, errBadParent})
	}
	return uint32(p)
}

// count reads the number of attributes. Each attribute has at least minSize bytes.
func (d *decoder) count(field string, minSize int) int {
	at := d.off
	n := d.Len(field, minSize)
	if n > wire.MaxAttributes {
		d.fail(at, field, &tagError{uint64(n), errTooMany})
		return 0
	}
	return n
}

// valueCount reads the number of attr_values. It must be equal to names, the number of attr_names.
func (d *decoder) valueCount(names int) {
	at := d.off
	if n := d.count("attr_values", 2); n != names && d.off > at {
		d.fail(at, "attr_values", errAttrMismatch)
	}
}

// traceEntry reads an entry into e. The strings of e then alias d.b, and the attributes reuse the memory of
// e.Attributes.
func (d *decoder) traceEntry(e *TraceEntry) {
	e.Parent = d.parent()
	e.Message = d.optionalString("message")
	d.metadata(&e.Metadata)
	e.Attributes = e.Attributes[:0]
	columns, list, least := d.version.hasColumns(), "attributes", 3
	if columns {
		list, least = "attr_names", 1
	}
	n := d.count(list, least)
	e.Attributes = slices.Grow(e.Attributes, n)
	for i := range n {
		d.index = i
		e.Attributes = append(e.Attributes, Attribute{Name: d.String(list)})
		if !columns {
			d.value(list, &e.Attributes[i].Value)
		}
		if d.off == len(d.b) && d.failed() {
			break
		}
	}
	d.index = -1
	if !columns {
		return
	}
	d.valueCount(n)
	if d.failed() {
		return
	}
	for i := range n {
		d.index = i
		d.value("attr_values", &e.Attributes[i].Value)
	}
	d.index = -1
}

// single decodes d.b, which must be exactly one entry.
func (d *decoder) single(e *TraceEntry) error {
	d.traceEntry(e)
	if err := d.Err(); err != nil {
		return err
	}
	if d.off < len(d.b) {
		return &CorruptError{Offset: d.base + int64(d.off), Entry: d.entry, Err: errTrailingBytes}
	}
	return nil
}

func (d *decoder) failed() bool { return d.err != nil || d.short }

// next decodes the entry with the given id at the beginning of b. The parameter off is the offset of b in the file. If
// prefixed is true, b begins with the length of the entry. The result raw is the encoded entry. The result size is its
// size in b, including the length before it. If b does not have the complete entry, size is 0 and err is nil. Then
// d.need is the number of bytes that b must have at least, and d.Err names the missing part.
func (d *decoder) next(b []byte, off, id int64, prefixed bool, e *TraceEntry) (raw []byte, size int, err error) {
	gap := 0
	if prefixed {
		d.reset(b, off, id)
		d.length = lengthError{}
		if len(b) < prefixSize {
			d.short, d.need, d.missing = true, prefixSize, "length"
			return nil, 0, nil
		}
		n, most := prefix(b), uint64(d.maxSize)
		if n == 0 || n > most {
			return nil, 0, &CorruptError{Offset: off, Entry: id, Field: "length", Err: &lengthError{Claimed: n, Remaining: most}}
		}
		gap = prefixSize
		if have := uint64(len(b) - gap); n > have {
			d.short, d.need, d.missing = true, gap+int(n), ""
			d.length = lengthError{Claimed: n, Remaining: have}
			return nil, 0, nil
		}
		b = b[gap : gap+int(n)]
	}
	d.reset(b, off+int64(gap), id)
	d.whole = prefixed
	d.traceEntry(e)
	switch {
	case d.short:
		return nil, 0, nil
	case d.err != nil:
		return nil, 0, d.err
	case prefixed && d.off < len(b):
		return nil, 0, &CorruptError{Offset: d.base + int64(d.off), Entry: id, Err: errTrailingBytes}
	case d.off > d.maxSize:
		return nil, 0, &CorruptError{Offset: d.base, Entry: d.entry, Err: &lengthError{Claimed: uint64(d.off), Remaining: uint64(d.maxSize)}}
	}
	return b[:d.off], gap + d.off, nil
}

// prefixSize is the size of the length that precedes each entry in IETPrefix.
const prefixSize = 8

func prefix(b []byte) uint64 { return binary.LittleEndian.Uint64(b) }

// DecodeTraceEntry decodes the entry of version v at the beginning of b into e. It returns the number of encoded
// bytes. The strings of e alias b, and its attributes reuse the memory of e.Attributes: call [TraceEntry.Clone] to
// keep the entry longer. DecodeTraceEntry does not know the id of the entry, so it does not check the parent.
//
// The error is a [*TruncatedError] if b ends too early, a [*CorruptError] for other damage, or [ErrUnsupported]
// for an unknown version.
func DecodeTraceEntry(b []byte, v Version, e *TraceEntry) (int, error) {
	if err := v.Check(); err != nil {
		return 0, err
	}
	d := decoder{version: v, maxSize: DefaultMaxEntrySize}
	d.reset(b, 0, noEntry)
	d.traceEntry(e)
	if err := d.Err(); err != nil {
		return 0, err
	}
	return d.off, nil
}
