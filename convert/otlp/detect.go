package otlp

import (
	"encoding/binary"
	"unicode/utf8"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/entrace-go/entrace/convert/internal/input"
)

// newSource tells the encoding of b from how it begins. JSON begins with a brace,
// a message of protobuf with the tag of its one field, which is a newline too,
// and a stream of such messages with a length below 160 MiB.
func newSource(b []byte) (source, error) {
	c := cursor{b: b}
	if len(b) >= utf8.UTFMax-1 && string(b[:3]) == "\ufeff" {
		c.i = 3
	}
	switch first := c.space(); {
	case first == 0 && c.i == len(b) && !bare(b), first == '{' && !bare(b) && object(b[c.i+1:]):
		return newJSONSource(b, c.i), nil
	case b[0] == tagOne:
		return &protoSource{b: b}, nil
	case len(b) < sizeSize && b[0] == 0:
		return &protoSource{b: b, framed: true}, nil
	case len(b) >= sizeSize:
		n := binary.BigEndian.Uint32(b)
		if b[0] < tagOne && (n == 0 || len(b) == sizeSize || b[sizeSize] == tagOne) {
			return &protoSource{b: b, framed: true}, nil
		}
	}
	return nil, &input.Error{Unit: "message 1", Err: ErrNotOTLP}
}

// object reports whether b can be what follows the brace of an object.
func object(b []byte) bool {
	c := cursor{b: b}
	next := c.space()
	return next == '"' || next == '}' || c.i == len(b)
}

const (
	// tagOne is the tag of field 1 when that is of a length.
	tagOne = 1<<3 | byte(protowire.BytesType)
	// sizeSize is the size of the length before a message of a stream.
	sizeSize = 4
)

// bare reports whether b is one whole message.
func bare(b []byte) bool {
	if len(b) == 0 || b[0] != tagOne {
		return false
	}
	for len(b) > 0 {
		if b[0] != tagOne {
			return false
		}
		_, n := protowire.ConsumeBytes(b[1:])
		if n < 0 {
			return false
		}
		b = b[1+n:]
	}
	return true
}
