// Package jsontext appends JSON in exact forms that encoding/json does not offer: floats that
// cannot be mistaken for integers, and strings without characters that act on a terminal.
package jsontext

import (
	"encoding/binary"
	"math"
	"math/bits"
	"slices"
	"strconv"
	"unicode/utf8"
)

const hexDigits = "0123456789abcdef"

// AppendString appends s as a JSON string. Bytes that are not UTF-8 become
// U+FFFD.
func AppendString(b []byte, s string) []byte { return appendString(b, s, false) }

// AppendSafeString is like AppendString, but also escapes every character that could act on a terminal: all
// control characters, and the characters that change the direction of text.
func AppendSafeString(b []byte, s string) []byte { return appendString(b, s, true) }

// AppendStrings appends a JSON array of strings.
func AppendStrings(b []byte, all []string) []byte {
	b = append(b, '[')
	for i, s := range all {
		if i > 0 {
			b = append(b, ',')
		}
		b = AppendString(b, s)
	}
	return append(b, ']')
}

func appendString(b []byte, s string, safe bool) []byte {
	b = append(b, '"')
	from := 0
	for i := 0; i < len(s); {
		c := s[i]
		if c < utf8.RuneSelf {
			if c >= ' ' && c != '"' && c != '\\' && (c != 0x7f || !safe) {
				i++
				continue
			}
			b = appendEscaped(append(b, s[from:i]...), c)
			i++
			from = i
			continue
		}
		r, n := utf8.DecodeRuneInString(s[i:])
		switch {
		case r == utf8.RuneError && n == 1:
			b = append(append(b, s[from:i]...), "\ufffd"...)
			from = i + n
		case safe && Acts(r):
			b = appendRune(append(b, s[from:i]...), r)
			from = i + n
		}
		i += n
	}
	return append(append(b, s[from:]...), '"')
}

func appendEscaped(b []byte, c byte) []byte {
	switch c {
	case '"', '\\':
		return append(b, '\\', c)
	case '\b':
		return append(b, `\b`...)
	case '\f':
		return append(b, `\f`...)
	case '\n':
		return append(b, `\n`...)
	case '\r':
		return append(b, `\r`...)
	case '\t':
		return append(b, `\t`...)
	}
	return appendRune(b, rune(c))
}

// appendRune appends the \u escape of a rune of the Basic Multilingual Plane.
func appendRune(b []byte, r rune) []byte {
	return append(b, '\\', 'u', hexDigits[r>>12&15], hexDigits[r>>8&15], hexDigits[r>>4&15], hexDigits[r&15])
}

// Acts reports whether a terminal acts on r instead of displaying it. These are control characters (C0, DEL, C1),
// the marks, embeddings, overrides and isolates of bidirectional text, and the separators of lines and paragraphs.
func Acts(r rune) bool {
	switch {
	case r < ' ', r >= 0x7f && r <= 0x9f:
		return true
	case r == 0x061c, r == 0x200e, r == 0x200f:
		return true
	case r >= 0x2028 && r <= 0x202e, r >= 0x2066 && r <= 0x2069:
		return true
	}
	return false
}

// AppendFloat appends f as a JSON number with a point or an exponent, in the shortest form that parses to f. For
// NaN and the infinities, which JSON cannot express, it appends nothing and returns false.
func AppendFloat(b []byte, f float64) ([]byte, bool) {
	if math.IsNaN(f) || math.IsInf(f, 0) {
		return b, false
	}
	if a := math.Abs(f); a != 0 && (a < 1e-6 || a >= 1e21) {
		return strconv.AppendFloat(b, f, 'e', -1, 64), true
	}
	from := len(b)
	b = strconv.AppendFloat(b, f, 'f', -1, 64)
	if slices.Contains(b[from:], '.') {
		return b, true
	}
	return append(b, ".0"...), true
}

// AppendNumber appends f as a JSON number. If JSON cannot express f, it appends the name of f as a string.
func AppendNumber(b []byte, f float64) []byte {
	if b, ok := AppendFloat(b, f); ok {
		return b
	}
	return AppendString(b, FloatName(f))
}

// FloatName returns the name of f, which is NaN or an infinity.
func FloatName(f float64) string {
	switch {
	case math.IsInf(f, 1):
		return "Infinity"
	case math.IsInf(f, -1):
		return "-Infinity"
	}
	return "NaN"
}

const (
	ones = 0x0101010101010101
	tops = 0x8080808080808080
)

// Plain returns the offset after the plain characters of a JSON string from the offset i of b on. A quote, a backslash,
// a control character or the end of b ends them.
func Plain(b []byte, i int) int {
	for ; i+8 <= len(b); i += 8 {
		x := binary.LittleEndian.Uint64(b[i:])
		quote, slash := x^ones*'"', x^ones*'\\'
		// The lowest set bit is correct. A carry can make bits above it wrong.
		m := ((quote-ones)&^quote | (slash-ones)&^slash | (x-ones*' ')&^x) & tops
		if m != 0 {
			return i + bits.TrailingZeros64(m)/8
		}
	}
	for i < len(b) && b[i] != '"' && b[i] != '\\' && b[i] >= ' ' {
		i++
	}
	return i
}
