package heph

import (
	"encoding/binary"
	"strconv"

	"github.com/entrace-go/entrace/format"
	"github.com/entrace-go/entrace/internal/core/wire"
)

// Constants of the format.
const (
	magicMetadata = 0x75D11D4D
	magicEvent    = 0xC1FC1FB7

	headSize     = 8  // size of the beginning of every packet: magic and size
	metadataSize = 10 // size of the smallest metadata packet
	eventSize    = 42 // size of the smallest event packet
	oldEventSize = 34 // size of the smallest event packet without a substream id

	nameEpoch = "epoch"

	// maxAttributes limits the memory for a packet: an attribute of five bytes in a packet needs fifty bytes here.
	// It leaves room in an entry for the attributes that describe the packet.
	maxAttributes = wire.MaxAttributes - 1<<6
)

// A packet is a packet of a trace, with an option or an event. It refers to the bytes from which it was read.
type packet struct {
	Offset   int64  // offset in the input; 0 for a datagram
	Number   int64  // its ordinal in the input
	Raw      []byte // the whole packet
	Metadata bool   // the packet has an option, not an event
	Option   option
	Event    event
}

// An option is a setting, the content of a metadata packet.
type option struct {
	Name  string
	Value []byte
}

// Epoch returns the epoch in nanoseconds since 1970, if o sets it.
func (o *option) Epoch() (nano uint64, ok bool) {
	if o.Name != nameEpoch || len(o.Value) != 8 {
		return 0, false
	}
	return binary.BigEndian.Uint64(o.Value), true
}

// An event is the content of an event packet. Times are in nanoseconds since the last epoch before the packet, or, if
// no epoch precedes the packet, since the first epoch after it.
type event struct {
	StreamID    uint32
	Counter     uint32 // number among the events of the stream, which may wrap around
	SubstreamID uint64
	Start, End  uint64
	Description string
	Attributes  []attribute
}

// parseHead returns the size of the packet at the beginning of b.
func parseHead(b []byte) (uint32, error) {
	// A part of a magic number is enough to distinguish a truncated packet from other bytes.
	var head [headSize]byte
	n := copy(head[:], b)
	for _, magic := range [...]uint32{magicMetadata, magicEvent} {
		var m [4]byte
		binary.BigEndian.PutUint32(m[:], magic)
		if string(m[:min(n, 4)]) != string(head[:min(n, 4)]) {
			continue
		}
		if n < headSize {
			return 0, format.ErrTruncated
		}
		size := binary.BigEndian.Uint32(head[4:])
		if size < headSize {
			return 0, errSize
		}
		return size, nil
	}
	return 0, errMagic
}

// parse parses p.Raw. Its magic number and size were already checked.
func (p *packet) parse() (field string, err error) {
	b := p.Raw
	p.Metadata = binary.BigEndian.Uint32(b) == magicMetadata
	if p.Metadata {
		p.Event = event{Attributes: p.Event.Attributes[:0]}
		return p.Option.parse(b)
	}
	p.Option = option{}
	field, err = p.Event.parse(b)
	if err != nil && isOldLayout(b) {
		return "", errOldLayout
	}
	return field, err
}

func (o *option) parse(b []byte) (field string, err error) {
	if len(b) < metadataSize {
		return "size", errLength
	}
	name, at, ok := cutString(b, headSize)
	if !ok {
		return "option name", errLength
	}
	o.Name, o.Value = name, b[at:]
	if o.Name == nameEpoch && len(o.Value) != 8 {
		return nameEpoch, errEpoch
	}
	return "", nil
}

func (e *event) parse(b []byte) (field string, err error) {
	e.Attributes = e.Attributes[:0]
	if len(b) < eventSize {
		return "size", errLength
	}
	e.StreamID = binary.BigEndian.Uint32(b[8:])
	e.Counter = binary.BigEndian.Uint32(b[12:])
	e.SubstreamID = binary.BigEndian.Uint64(b[16:])
	e.Start = binary.BigEndian.Uint64(b[24:])
	e.End = binary.BigEndian.Uint64(b[32:])
	text, at, ok := cutString(b, eventSize-2)
	if !ok {
		return "description", errLength
	}
	e.Description = text
	e.Attributes, err = parseAttributes(e.Attributes, b[at:])
	if err != nil {
		return "attributes[" + strconv.Itoa(len(e.Attributes)) + "]", err
	}
	return "", nil
}

// parseAttributes parses b as a list of attributes, and appends them to attrs.
func parseAttributes(attrs []attribute, b []byte) ([]attribute, error) {
	for at := 0; at < len(b); {
		name, next, ok := cutString(b, at)
		if !ok || next == len(b) {
			return attrs, errLength
		}
		v := value{typ: valueType(b[next])}
		at = next + 1
		switch {
		case !v.typ.valid():
			return attrs, errType
		case v.typ == kindString:
			v.text, at, ok = cutString(b, at)
		case v.typ&kindArray != 0:
			at, ok = v.cutArray(b, at)
		default:
			ok = len(b)-at >= 8
			if ok {
				v.num = binary.BigEndian.Uint64(b[at:])
				at += 8
			}
		}
		if !ok {
			return attrs, errLength
		}
		if len(attrs) == maxAttributes {
			return attrs, errTooLarge
		}
		attrs = append(attrs, attribute{name, v})
	}
	return attrs, nil
}

// cutString returns the text at b[at:], and the offset after it.
func cutString(b []byte, at int) (s string, end int, ok bool) {
	if len(b)-at < 2 {
		return "", at, false
	}
	n := int(binary.BigEndian.Uint16(b[at:]))
	at += 2
	if len(b)-at < n {
		return "", at, false
	}
	return wire.View(b[at : at+n]), at + n, true
}

// cutArray sets v to the array at b[at:], and returns the offset after it.
func (v *value) cutArray(b []byte, at int) (end int, ok bool) {
	if len(b)-at < 2 {
		return at, false
	}
	n := int(binary.BigEndian.Uint16(b[at:]))
	at += 2
	end = at + 8*n
	if v.typ == kindString|kindArray {
		end = at
		for range n {
			_, end, ok = cutString(b, end)
			if !ok {
				return at, false
			}
		}
	}
	if end > len(b) {
		return at, false
	}
	v.num, v.text = uint64(n), wire.View(b[at:end])
	return end, true
}

// isOldLayout reports whether b, which is no valid event packet, may have the old layout without a substream id.
func isOldLayout(b []byte) bool {
	if len(b) < oldEventSize {
		return false
	}
	_, at, ok := cutString(b, oldEventSize-2)
	if !ok {
		return false
	}
	_, err := parseAttributes(nil, b[at:])
	return err == nil
}
