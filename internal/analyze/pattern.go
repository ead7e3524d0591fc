package analyze

import (
	"strings"

	texts "github.com/entrace-go/entrace/internal/text"
)

// maxPattern is the maximum number of bytes of a text that are used for its pattern.
const maxPattern = 300

// Pattern returns a pattern that similar texts have in common. It is the first line of text, with
// placeholders for the parts that differ: <number> for digits, <hex> for hexadecimal numbers of at
// least six digits, <uuid> for UUIDs, and <text> for quoted texts.
func Pattern(text string) string { return patternWith(text, false) }

// patternWith is like Pattern. If places is set, it keeps digits that identify a place in the source or a
// status: digits after #, after line, after a colon at the end of a word, and separate numbers from 100 to 599.
func patternWith(text string, places bool) string {
	text, _, _ = strings.Cut(text, "\n")
	if len(text) > maxPattern {
		text = texts.Head(text, maxPattern) + "…"
	}
	if !strings.ContainsAny(text, "0123456789\"'`") {
		return text
	}
	var b strings.Builder
	for i := 0; i < len(text); {
		inWord := i > 0 && isWordByte(text[i-1])
		name, n := "", 0
		switch c := text[i]; {
		case c == '"' || c == '`' || c == '\'':
			n = quoted(text[i:], inWord)
			if n > 0 {
				b.WriteByte(c)
				b.WriteString("<text>")
				b.WriteByte(c)
				i += n
				continue
			}
		case !inWord && isHex(c):
			name, n = hexWord(text[i:])
			if n == 0 && isDigit(c) {
				name, n = "<number>", numberSize(text[i:])
			}
		case isDigit(c):
			name, n = "<number>", numberSize(text[i:])
		}
		if n > 0 && places && isPlace(text[:i], text[i:i+n], text[i+n:]) {
			name = text[i : i+n]
		}
		if n == 0 {
			b.WriteByte(text[i])
			i++
			continue
		}
		b.WriteString(name)
		i += n
	}
	return b.String()
}

// isPlace reports whether a number identifies a place in the source or a status.
func isPlace(before, number, after string) bool {
	ends := after == "" || strings.IndexByte(" :)]", after[0]) >= 0
	switch {
	case strings.HasSuffix(before, "#"), strings.HasSuffix(before, "line "), ends && strings.HasSuffix(before, ":"):
		return strings.Trim(number, "0123456789") == ""
	}
	alone := func(s string, at int) bool {
		return s == "" || !isWordByte(s[at]) && strings.IndexByte(".:/-", s[at]) < 0
	}
	if strings.HasSuffix(before, " at ") { // a position in data
		return false
	}
	return len(number) == 3 && number >= "100" && number < "600" && alone(before, len(before)-1) && alone(after, 0)
}

func isDigit(c byte) bool { return c >= '0' && c <= '9' }

func isHex(c byte) bool { return isDigit(c) || c|0x20 >= 'a' && c|0x20 <= 'f' }

func isWordByte(c byte) bool {
	return isDigit(c) || c|0x20 >= 'a' && c|0x20 <= 'z' || c == '_' || c >= 0x80
}

// quoted returns the length of the quoted text at the beginning of s, or 0 if there is none. An
// apostrophe inside of a word does not begin a quoted text.
func quoted(s string, inWord bool) int {
	if s[0] == '\'' && inWord {
		return 0
	}
	for i := 1; i < len(s); i++ {
		switch {
		case s[i] == '\\' && s[0] != '`':
			i++
		case s[i] == s[0] && (s[0] != '\'' || i+1 == len(s) || !isWordByte(s[i+1])):
			return i + 1
		}
	}
	return 0
}

// hexWord returns the length of the hexadecimal number or UUID at the beginning of s, and its
// placeholder. A hexadecimal number must have a digit and a letter, to distinguish it from words
// and decimal numbers.
func hexWord(s string) (name string, n int) {
	if n := uuidSize(s); n > 0 {
		return "<uuid>", n
	}
	from := 0
	if strings.HasPrefix(s, "0x") || strings.HasPrefix(s, "0X") {
		from = 2
	}
	digits, letters := 0, 0
	for n = from; n < len(s) && isHex(s[n]); n++ {
		if isDigit(s[n]) {
			digits++
		} else {
			letters++
		}
	}
	switch {
	case n < len(s) && isWordByte(s[n]):
		return "", 0
	case from > 0 && n > from, digits > 0 && letters > 0 && n >= 6:
		return "<hex>", n
	}
	return "", 0
}

// uuidSize returns 36 if s begins with a UUID, else 0.
func uuidSize(s string) int {
	const size = 36
	if len(s) < size || len(s) > size && isWordByte(s[size]) {
		return 0
	}
	for i := range size {
		if dash := i == 8 || i == 13 || i == 18 || i == 23; dash != (s[i] == '-') || !dash && !isHex(s[i]) {
			return 0
		}
	}
	return size
}

// numberSize returns the length of the number at the beginning of s. A number can have dots, commas
// or colons between its digits, as in versions, addresses and times of day.
func numberSize(s string) int {
	n := 0
	for n < len(s) && (isDigit(s[n]) || n+1 < len(s) && (s[n] == '.' || s[n] == ',' || s[n] == ':') && isDigit(s[n+1])) {
		n++
	}
	return n
}
