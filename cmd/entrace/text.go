package main

import (
	"encoding/json"
	"io"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/entrace-go/entrace/format"
	"github.com/entrace-go/entrace/internal/jsontext"
)

// safe returns s so that it does nothing to a terminal but appear: controls, what
// changes the direction of text, and bytes that are no text are escaped.
func safe(s string) string {
	plain := true
	for _, r := range s {
		if r == utf8.RuneError || jsontext.Acts(r) {
			plain = false
			break
		}
	}
	if plain {
		return s
	}
	var b strings.Builder
	for i := 0; i < len(s); {
		r, n := utf8.DecodeRuneInString(s[i:])
		switch {
		case r == utf8.RuneError && n == 1:
			b.WriteString(`\x` + hex2(s[i]))
		case r == '\n':
			b.WriteString(`\n`)
		case r == '\t':
			b.WriteString(`\t`)
		case r == '\r':
			b.WriteString(`\r`)
		case jsontext.Acts(r) && r < 0x80:
			b.WriteString(`\x` + hex2(byte(r)))
		case jsontext.Acts(r):
			b.WriteString(`\u` + hex2(byte(r>>8)) + hex2(byte(r)))
		default:
			b.WriteString(s[i : i+n])
		}
		i += n
	}
	return b.String()
}

// printJSON prints v as one JSON object that does nothing to a terminal either.
func (a *app) printJSON(v any) error {
	b, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		return err
	}
	_, err = io.WriteString(a.out, safeJSON(b)+"\n")
	return err
}

// safeJSON returns JSON that does nothing to a terminal.
func safeJSON(b []byte) string {
	var out strings.Builder
	for _, r := range string(b) { // what acts and is not escaped yet is in a string
		if jsontext.Acts(r) && r != '\n' {
			out.WriteString(`\u` + hex2(byte(r>>8)) + hex2(byte(r)))
		} else {
			out.WriteRune(r)
		}
	}
	return out.String()
}

func hex2(c byte) string {
	const digits = "0123456789abcdef"
	return string([]byte{digits[c>>4], digits[c&15]})
}

// short returns at most n runes of s.
func short(s string, n int) string {
	for i := range s {
		if n == 0 {
			return s[:i] + "…"
		}
		n--
	}
	return s
}

// valueText returns a value for people to read.
func valueText(v format.Value) string {
	switch v.Kind() {
	case format.KindString:
		s := v.Text()
		if s == "" || strings.ContainsAny(s, " \"=\n\t") {
			s = strconv.Quote(strings.ToValidUTF8(s, "\ufffd"))
		}
		return safe(s)
	case format.KindBytes:
		if mostlyText(v.Bytes()) { // a text with a byte that is not UTF-8
			return safe("b" + strconv.Quote(v.Text()))
		}
	case format.KindFloat:
		if b, ok := jsontext.AppendFloat(nil, v.Float()); ok {
			return string(b)
		}
		return jsontext.FloatName(v.Float())
	}
	return v.String()
}

// mostlyText reports whether most of b reads as text.
func mostlyText(b []byte) bool {
	good, all := 0, 0
	for at := 0; at < len(b) && all < 256; all++ {
		r, n := utf8.DecodeRune(b[at:])
		if r != utf8.RuneError && !jsontext.Acts(r) || r == '\n' || r == '\t' {
			good++
		}
		at += n
	}
	return all > 1 && good*4 > all*3
}

// The colors, as numbers of SGR.
const (
	colorDim    = "2"
	colorBold   = "1"
	colorRed    = "31"
	colorYellow = "33"
	colorGreen  = "32"
	colorBlue   = "34"
)

func (a *app) paint(color, s string) string {
	if !a.color || s == "" {
		return s
	}
	return "\x1b[" + color + "m" + s + "\x1b[0m"
}

func (a *app) level(l format.Level) string {
	s := l.String()
	switch l {
	case format.LevelTrace:
		return a.paint(colorDim, s)
	case format.LevelDebug:
		return a.paint(colorBlue, s)
	case format.LevelInfo:
		return a.paint(colorGreen, s)
	case format.LevelWarn:
		return a.paint(colorYellow, s)
	}
	return a.paint(colorRed, s)
}
