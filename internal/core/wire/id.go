package wire

import "encoding/hex"

// ParseID parses an id of 16 or 8 bytes from hex digits.
func ParseID[T [16]byte | [8]byte](s string) (id T, ok bool) {
	var b [16]byte
	if len(s) == 0 || len(s) != 2*len(id) {
		return id, false
	}
	if _, err := hex.Decode(b[:], []byte(s)); err != nil {
		return id, false
	}
	for i := range len(id) {
		id[i] = b[i]
	}
	return id, true
}
