package perfetto

import (
	"encoding/binary"
	"strings"
	"unicode/utf8"
)

// The needed parts of protobuf's encoding. All functions append to b and return the extended slice.

// The wire types.
const (
	wireVarint  = 0
	wireFixed64 = 1
	wireBytes   = 2
)

func appendKey(b []byte, field, wire uint64) []byte {
	return binary.AppendUvarint(b, field<<3|wire)
}

func appendUint(b []byte, field, n uint64) []byte {
	return binary.AppendUvarint(appendKey(b, field, wireVarint), n)
}

func appendFixed(b []byte, field, n uint64) []byte {
	return binary.LittleEndian.AppendUint64(appendKey(b, field, wireFixed64), n)
}

// appendText appends a string, with U+FFFD instead of invalid UTF-8, which protobuf does not allow.
func appendText(b []byte, field uint64, s string) []byte {
	if !utf8.ValidString(s) {
		s = strings.ToValidUTF8(s, "\ufffd")
	}
	b = binary.AppendUvarint(appendKey(b, field, wireBytes), uint64(len(s)))
	return append(b, s...)
}

// open begins a message in a field. It also returns the offset to pass to end.
func open(b []byte, field uint64) ([]byte, int) {
	b = append(appendKey(b, field, wireBytes), 0)
	return b, len(b)
}

// end ends the message whose content begins at the offset at, and stores its length before it. One byte is reserved
// for the length, which is enough for most messages. The content of a longer message is moved.
func end(b []byte, at int) []byte {
	n := len(b) - at
	if n < 0x80 {
		b[at-1] = byte(n)
		return b
	}
	var length [binary.MaxVarintLen64]byte
	size := binary.PutUvarint(length[:], uint64(n))
	b = append(b, length[:size-1]...)
	copy(b[at+size-1:], b[at:at+n])
	copy(b[at-1:], length[:size])
	return b
}
