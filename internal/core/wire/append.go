package wire

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math"
	"unicode/utf8"
	"unsafe"
)

// The tags: the first byte of a number that is too large for one byte. Part of the file format.
const (
	Tag16  = 251
	Tag32  = 252
	Tag64  = 253
	Tag128 = 254
)

// MagicName is the first eight bytes of every file. The version and the storage format follow, one byte each, so
// the magic has MagicSize bytes. Part of the file format.
const (
	MagicName = "\x00ENTRACE"
	MagicSize = 10
)

// AppendMagic appends the magic of a file of version v and storage format f. It panics if v or f is unknown.
func AppendMagic[V, F ~uint8](b []byte, v V, f F) []byte {
	if v < 1 || v > 2 || f > 2 {
		panic(fmt.Sprintf("wire: magic of version %d, format %d", v, f))
	}
	return append(append(b, MagicName...), byte(v), byte(f))
}

// A Kind is the kind of a value, numbered as the variants of ENTRACE's EnValue. Part of
// the file format.
type Kind = uint8

// The kinds of values.
const (
	KindString Kind = 0
	KindBytes  Kind = 1
	KindBool   Kind = 2
	KindFloat  Kind = 3
	KindU64    Kind = 4
	KindI64    Kind = 5
	KindU128   Kind = 6
	KindI128   Kind = 7
)

// NumLevels is the number of levels of an entry. Part of the file format.
const NumLevels = 5

// AppendUint appends n in its shortest form.
func AppendUint(b []byte, n uint64) []byte {
	switch {
	case n < Tag16:
		return append(b, byte(n))
	case n <= math.MaxUint16:
		return append(b, Tag16, byte(n), byte(n>>8))
	case n <= math.MaxUint32:
		return binary.LittleEndian.AppendUint32(append(b, Tag32), uint32(n))
	}
	return binary.LittleEndian.AppendUint64(append(b, Tag64), n)
}

// UintSize returns the size in bytes of an encoded number that begins with the byte c.
func UintSize(c byte) int {
	switch c {
	case Tag16:
		return 3
	case Tag32:
		return 5
	case Tag64:
		return 9
	case Tag128:
		return 17
	}
	return 1
}

// AppendMoved appends the encoded entry raw, with the number parent in place of its own parent.
func AppendMoved(b, raw []byte, parent uint32) []byte {
	n := 0
	if len(raw) > 0 {
		n = min(UintSize(raw[0]), len(raw))
	}
	return append(AppendUint(b, uint64(parent)), raw[n:]...)
}

// AppendUint128 appends hi<<64 | lo in its shortest form.
func AppendUint128(b []byte, hi, lo uint64) []byte {
	if hi == 0 {
		return AppendUint(b, lo)
	}
	b = binary.LittleEndian.AppendUint64(append(b, Tag128), lo)
	return binary.LittleEndian.AppendUint64(b, hi)
}

// AppendInt appends n in zigzag encoding.
func AppendInt(b []byte, n int64) []byte { return AppendUint(b, uint64(n<<1)^uint64(n>>63)) }

// AppendInt128 appends the two's complement number hi<<64 | lo in zigzag encoding.
func AppendInt128(b []byte, hi, lo uint64) []byte {
	sign := uint64(int64(hi) >> 63)
	return AppendUint128(b, (hi<<1|lo>>63)^sign, lo<<1^sign)
}

// AppendString appends a text.
func AppendString(b []byte, s string) []byte { return append(AppendUint(b, uint64(len(s))), s...) }

// AppendText appends s, with U+FFFD in place of each byte that is not valid UTF-8.
func AppendText(b []byte, s string) []byte { return AppendString(b, ValidText(s)) }

// ValidText returns s with U+FFFD in place of each byte that is not valid UTF-8.
func ValidText(s string) string {
	if IsValid(s) {
		return s
	}
	return string([]rune(s))
}

// IsValid reports whether s is valid UTF-8. It is faster than utf8.ValidString for short
// ASCII texts, such as names and most values.
func IsValid(s string) bool { return isASCII(s) || utf8.ValidString(s) }

func isASCII(s string) bool {
	const high = 0x8080808080808080
	if len(s) < 8 {
		if len(s) >= 4 { // the two words may overlap, as below
			return (load32(s, 0)|load32(s, len(s)-4))&(high>>32) == 0
		}
		var c byte
		for i := range len(s) {
			c |= s[i]
		}
		return c < utf8.RuneSelf
	}
	last := load64(s, len(s)-8)
	for ; len(s) > 8; s = s[8:] {
		if load64(s, 0)&high != 0 {
			return false
		}
	}
	return last&high == 0
}

func load64(s string, i int) uint64 {
	return uint64(s[i]) | uint64(s[i+1])<<8 | uint64(s[i+2])<<16 | uint64(s[i+3])<<24 |
		uint64(s[i+4])<<32 | uint64(s[i+5])<<40 | uint64(s[i+6])<<48 | uint64(s[i+7])<<56
}

func load32(s string, i int) uint32 {
	return uint32(s[i]) | uint32(s[i+1])<<8 | uint32(s[i+2])<<16 | uint32(s[i+3])<<24
}

const hexDigits = "0123456789abcdef"

var hexPairs = func() (p [256][2]byte) {
	for i := range p {
		p[i] = [2]byte{hexDigits[i>>4], hexDigits[i&15]}
	}
	return p
}()

// AppendHex appends id as attributes store it: two lower-case hex digits for each byte.
func AppendHex(b, id []byte) []byte {
	for _, c := range id {
		b = append(b, hexPairs[c][0], hexPairs[c][1])
	}
	return b
}

// IsZero reports whether all bytes of b are zero. A crash can leave zeros at the end of a file.
func IsZero(b []byte) bool { return len(bytes.TrimLeft(b, "\x00")) == 0 }

// View returns b as a string, without a copy. The text is valid as long as b does not change.
func View(b []byte) string { return unsafe.String(unsafe.SliceData(b), len(b)) }
