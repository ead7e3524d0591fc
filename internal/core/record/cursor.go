package record

import (
	"encoding/binary"
	"time"

	"github.com/entrace-go/entrace/internal/core/journal"
	"github.com/entrace-go/entrace/internal/core/wire"
)

// A Record is a record of the journal with its fields parsed and its entries still encoded.
type Record struct {
	Time        int64
	Kind        Kind
	Provider    uint8
	Flags       uint8
	Resource    uint16
	Entries     int
	Ref, Parent Ref
	Data        []byte // the encoded entries

	source *journal.Entry
}

// Parse sets r to the record e, without decoding its entries. It returns false if a later version of this module
// wrote e, or if e is damaged. r.Data aliases e.Data.
func (r *Record) Parse(e *journal.Entry) bool {
	u := e.Info.User()
	r.Time, r.Entries, r.source = e.Time, e.Info.Entries(), e
	r.Kind, r.Provider, r.Flags, r.Resource = Kind(u&15), uint8(u>>4&63), uint8(u>>10), uint16(u>>18)
	data := e.Data
	r.Ref, r.Parent = Ref{}, Ref{}
	if r.Flags&FlagRef != 0 {
		if len(data) < RefSize {
			return false
		}
		r.Ref, data = Ref(data[:RefSize]), data[RefSize:]
	}
	if r.Flags&FlagParent != 0 {
		if len(data) < RefSize {
			return false
		}
		r.Parent, data = Ref(data[:RefSize]), data[RefSize:]
	}
	r.Data = data
	switch r.Kind {
	case KindLog:
		return r.Entries == 1
	case KindSpan, KindEither:
		return r.Entries > 0
	case KindEnd:
		return true
	case KindResource, KindMark, KindElsewhere:
		return r.Entries == 0
	}
	return false
}

// Cursor returns a cursor before the first entry.
func (r *Record) Cursor() Cursor {
	return Cursor{b: r.Data, source: r.source, offset: len(r.source.Data) - len(r.Data)}
}

// CursorAt returns a cursor before the entry of the definition d.
func CursorAt(d *Definition) Cursor { return Cursor{b: d.Entry} }

// A Cursor reads the entries of a record. If the record is damaged, the Cursor stops early and sets bad.
type Cursor struct {
	b      []byte
	at     int
	source *journal.Entry // the record of b, for shared bytes
	offset int            // offset of b in source.Data
	bad    bool

	// While c reads shared items: the values of b and at before them, to continue there afterwards.
	outer   []byte
	outerAt int
}

func (c *Cursor) fail() { c.bad, c.at, c.outer = true, len(c.b), nil }

// A Text is the number of a text, or the text itself.
type Text struct {
	Number uint16 // 0: the text has no number
	Text   string
}

// A Head is the beginning of an entry. Its texts alias the record.
type Head struct {
	Level        uint8
	Place        uint16 // the number of a place, whose definition has the fields not set here; 0: no place
	PlaceMessage bool   // the message is that of the place

	Message                     string
	Name, Target                Text
	Module, File                Text
	Line                        uint32
	HasMessage                  bool
	HasModule, HasFile, HasLine bool
}

// Next reads the head of the next entry. Before calling it again, the caller must read all items of the entry, up
// to CodeEnd. Next returns false if the record has no further entry.
func (c *Cursor) Next(h *Head) bool {
	if c.bad || len(c.b)-c.at < 4 {
		return false
	}
	*h = Head{}
	flags := c.b[c.at]
	h.Level = c.b[c.at+1]
	c.at += 2
	if h.Level >= wire.NumLevels {
		c.fail()
	} else if flags&headPlace != 0 {
		h.Place = c.number()
		h.PlaceMessage = flags&headPlaceMessage != 0
		if h.Place == 0 {
			c.fail()
		}
	} else {
		h.Name, h.Target = c.text(), c.text()
		h.HasModule = flags&headModule != 0
		if h.HasModule {
			h.Module = c.text()
		}
		h.HasFile = flags&headFile != 0
		if h.HasFile {
			h.File = c.text()
		}
		h.HasLine = flags&headLine != 0
		if h.HasLine {
			h.Line = uint32(c.uvarint())
		}
	}
	h.HasMessage = flags&headMessage != 0
	if h.HasMessage {
		h.Message = c.bytes()
	}
	return !c.bad
}

// A Code is the type of an Item.
type Code uint8

// The codes of items.
const (
	CodeEnd Code = iota // the entry ends
	CodeAttribute
	CodeGroup
	CodeGroupEnd
	CodeTruncated
	CodeTime // the attribute with the time of the record, which is in Item.Lo
)

// An Item is an attribute, or another part of an entry after its head. Its texts alias the record.
type Item struct {
	Name Text // name of an attribute or group
	Own  bool // for a name without a number: the name is stored unchanged

	Kind   uint8
	Text   string // the value of each kind that is a text; for Hex the bytes
	Lo, Hi uint64 // a number, a Bool, or the bits of a Float; for a Time the seconds and the nanoseconds
	Offset int32  // zone offset of a Time in seconds
}

// Time returns the value of i as a time.
func (i *Item) Time() time.Time {
	t := time.Unix(int64(i.Lo), int64(i.Hi))
	if i.Offset == 0 {
		return t.UTC()
	}
	return t.In(time.FixedZone("", int(i.Offset)))
}

// Item reads the next item of an entry. It returns CodeEnd if the record is damaged.
func (c *Cursor) Item(i *Item) Code {
	for {
		if c.at >= len(c.b) {
			if c.outer == nil {
				c.fail()
				return CodeEnd
			}
			c.b, c.at, c.outer = c.outer, c.outerAt, nil
			continue
		}
		if b := c.b[c.at]; b != 0 {
			i.Name = Text{Number: c.number()}
			return c.value(i)
		}
		if c.at+1 >= len(c.b) {
			c.fail()
			return CodeEnd
		}
		code := c.b[c.at+1]
		c.at += 2
		switch code {
		case codeEnd:
			if c.outer != nil {
				c.fail()
			}
			return CodeEnd
		case codeName, codeOwn:
			i.Name, i.Own = Text{Text: c.bytes()}, code == codeOwn
			return c.value(i)
		case codeGroup:
			i.Name = c.text()
			return c.unlessBad(CodeGroup)
		case codeGroupEnd:
			return CodeGroupEnd
		case codeTruncated:
			return CodeTruncated
		case codeTime:
			if c.source == nil {
				c.fail()
				return CodeEnd
			}
			i.Lo = uint64(c.source.Time)
			return CodeTime
		case codeShared:
			if !c.share() {
				c.fail()
				return CodeEnd
			}
		default:
			c.fail()
			return CodeEnd
		}
	}
}

// Common is a fast way to read the most frequent items: an attribute whose name has a number and whose value is a
// short String, a Bool, a Float, a U64, an I64 or a Duration. If the next item is different, Common reads nothing
// and returns 0, and the caller must call Item. Common takes a third of the time of Item.
func (c *Cursor) Common() (number uint16, kind uint8, lo uint64, text string) {
	const most = 2 + 1 + 8 // the largest size of such an item, without the bytes of a text
	if len(c.b)-c.at < most {
		return 0, 0, 0, ""
	}
	b := c.b[c.at:]
	n, at := uint16(b[0]), 1
	if n >= 1<<7 {
		n, at = n&^(1<<7)<<8|uint16(b[1]), 2
	}
	if n == 0 {
		return 0, 0, 0, ""
	}
	head := b[at]
	at++
	switch head & 15 {
	case ValueString:
		size := int(b[at])
		at++
		if size >= 1<<7 || size > len(b)-at {
			return 0, 0, 0, ""
		}
		text = wire.View(b[at : at+size])
		at += size
	case ValueBool:
		lo = uint64(head >> 4 & 1)
	case ValueU64, ValueI64, ValueDuration:
		size := int(head >> 4)
		if size > 8 {
			return 0, 0, 0, ""
		}
		lo = binary.LittleEndian.Uint64(b[at:]) & (1<<(8*size) - 1)
		if head&15 != ValueU64 {
			lo = lo>>1 ^ -(lo & 1)
		}
		at += size
	case ValueFloat:
		lo = binary.LittleEndian.Uint64(b[at:])
		at += 8
	default:
		return 0, 0, 0, ""
	}
	c.at += at
	return n, head & 15, lo, text
}

func (c *Cursor) unlessBad(code Code) Code {
	if c.bad {
		return CodeEnd
	}
	return code
}

// share lets c read the shared items next. At their end, c returns to the items after the reference to them.
func (c *Cursor) share() bool {
	if c.outer != nil || c.source == nil {
		return false
	}
	shared, rest, ok := c.source.Shared(c.offset + c.at)
	if !ok {
		return false
	}
	c.outer, c.outerAt = c.b, len(c.b)-len(rest)
	c.b, c.at = shared, 0
	return true
}

// value reads the value of an attribute.
func (c *Cursor) value(i *Item) Code {
	if c.at >= len(c.b) {
		c.fail()
		return CodeEnd
	}
	head := c.b[c.at]
	c.at++
	i.Kind = head & 15
	switch i.Kind {
	case ValueString, ValueBytes, ValueJSON, ValueAnyValue, ValueHex:
		i.Text = c.bytes()
	case ValueBool:
		i.Lo = uint64(head >> 4 & 1)
	case ValueFloat:
		i.Lo = c.uint64()
	case ValueU64:
		i.Lo = c.integer(int(head >> 4))
	case ValueI64, ValueDuration:
		n := c.integer(int(head >> 4))
		i.Lo = n>>1 ^ -(n & 1)
	case ValueU128, ValueI128:
		i.Lo = c.uint64()
		i.Hi = c.uint64()
	case ValueTime:
		i.Lo = c.uint64()
		n := c.uint64()
		i.Hi, i.Offset = n&(1<<32-1), int32(n>>32)
	default:
		c.fail()
	}
	return c.unlessBad(CodeAttribute)
}

// integer reads a number of size bytes.
func (c *Cursor) integer(size int) uint64 {
	if len(c.b)-c.at >= 8 && size <= 8 { // the usual case
		n := binary.LittleEndian.Uint64(c.b[c.at:])
		c.at += size
		return n & (1<<(8*size) - 1)
	}
	if size > 8 || len(c.b)-c.at < size {
		c.fail()
		return 0
	}
	var b [8]byte
	copy(b[:], c.b[c.at:c.at+size])
	c.at += size
	return binary.LittleEndian.Uint64(b[:])
}

func (c *Cursor) uint64() uint64 {
	if len(c.b)-c.at < 8 {
		c.fail()
		return 0
	}
	n := binary.LittleEndian.Uint64(c.b[c.at:])
	c.at += 8
	return n
}

// number reads the number of a definition, or 0 if a text or a code follows.
func (c *Cursor) number() uint16 {
	if c.at >= len(c.b) {
		c.fail()
		return 0
	}
	n := uint16(c.b[c.at])
	c.at++
	if n < 1<<7 {
		return n
	}
	if c.at >= len(c.b) {
		c.fail()
		return 0
	}
	n = n&^(1<<7)<<8 | uint16(c.b[c.at])
	c.at++
	return n
}

func (c *Cursor) text() Text {
	if n := c.number(); n != 0 {
		return Text{Number: n}
	}
	return Text{Text: c.bytes()}
}

func (c *Cursor) uvarint() uint64 {
	n, rest, ok := uvarint(c.b[c.at:])
	if !ok {
		c.fail()
		return 0
	}
	c.at = len(c.b) - len(rest)
	return n
}

func uvarint(b []byte) (n uint64, rest []byte, ok bool) {
	if len(b) > 0 && b[0] < 1<<7 {
		return uint64(b[0]), b[1:], true
	}
	n, size := binary.Uvarint(b)
	if size <= 0 {
		return 0, nil, false
	}
	return n, b[size:], true
}

// bytes reads a length and as many bytes. The result aliases c.b.
func (c *Cursor) bytes() string {
	n := c.uvarint()
	if n > uint64(len(c.b)-c.at) {
		c.fail()
		return ""
	}
	s := wire.View(c.b[c.at : c.at+int(n)])
	c.at += int(n)
	return s
}
