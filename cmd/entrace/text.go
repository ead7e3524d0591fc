package main

import (
	"encoding/json"
	"fmt"
	"io"
	"regexp"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/entrace-go/entrace/format"
	"github.com/entrace-go/entrace/internal/text/jsontext"
)

// safe escapes everything in s that would act on a terminal: control characters, characters that change
// the direction of text, and bytes that are not UTF-8.
func safe(s string) string {
	for i := range len(s) {
		if c := s[i]; c < ' ' || c > '~' {
			if at := strings.IndexFunc(s[i:], func(r rune) bool { return r == utf8.RuneError || jsontext.Acts(r) }); at >= 0 {
				return escaped(s, i+at)
			}
			break
		}
	}
	return s
}

// colors matches the sequences with which programs color their texts.
var colors = regexp.MustCompile(`^\x1b\[[0-9;]*m`)

// escaped returns s without colors. From offset i on, it escapes all characters that would act on a terminal.
func escaped(s string, i int) string {
	b := append(make([]byte, 0, len(s)+16), s[:i]...)
	for i < len(s) {
		r, n := utf8.DecodeRuneInString(s[i:])
		switch {
		case r == '\x1b' && colors.MatchString(s[i:]):
			n = len(colors.FindString(s[i:]))
		case r == '\n':
			b = append(b, `\n`...)
		case r == '\t':
			b = append(b, `\t`...)
		case r == '\r':
			b = append(b, `\r`...)
		case jsontext.Acts(r) && r < 0x80, r == utf8.RuneError && n == 1:
			b = fmt.Appendf(b, `\x%02x`, s[i])
		case jsontext.Acts(r):
			b = fmt.Appendf(b, `\u%04x`, r)
		default:
			b = append(b, s[i:i+n]...)
		}
		i += n
	}
	return string(b)
}

// printJSON prints v as one JSON object. It escapes characters that would act on a terminal.
func (a *app) printJSON(v any) error {
	b, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		return err
	}
	_, err = io.WriteString(a.out, safeJSON(b)+"\n")
	return err
}

// safeJSON escapes the characters in b, a JSON text, that would act on a terminal.
func safeJSON(b []byte) string {
	var out strings.Builder
	for _, r := range string(b) { // characters that act on a terminal are only in strings
		if jsontext.Acts(r) && r != '\n' {
			fmt.Fprintf(&out, `\u%04x`, r)
		} else {
			out.WriteRune(r)
		}
	}
	return out.String()
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

// valueText returns a value as text for people.
func valueText(v format.Value) string { return string(appendValue(nil, v)) }

// appendValue appends a value as text for people.
func appendValue(b []byte, v format.Value) []byte {
	switch v.Kind() {
	case format.KindString:
		s := v.Text()
		if s == "" || strings.ContainsAny(s, " \"=\n\t") {
			s = strconv.Quote(strings.ToValidUTF8(s, "\ufffd"))
		}
		return append(b, safe(s)...)
	case format.KindBytes:
		if mostlyText(v.Bytes()) { // text with a few bytes that are not UTF-8
			return append(b, safe("b"+strconv.Quote(v.Text()))...)
		}
		return append(b, v.String()...)
	case format.KindBool:
		return strconv.AppendBool(b, v.Bool())
	case format.KindFloat:
		if b, ok := jsontext.AppendFloat(b, v.Float()); ok {
			return b
		}
		return append(b, jsontext.FloatName(v.Float())...)
	}
	return v.AppendDecimal(b)
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

// The colors, as parameters of the terminal sequence SGR.
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

func (a *app) level(l format.Level) string { return a.paint(levelColor(l), l.String()) }

func levelColor(l format.Level) string {
	switch l {
	case format.LevelTrace:
		return colorDim
	case format.LevelDebug:
		return colorBlue
	case format.LevelInfo:
		return colorGreen
	case format.LevelWarn:
		return colorYellow
	}
	return colorRed
}

// A line builds a line of words with a space between them.
type line struct {
	b        []byte
	colors   bool
	measured bool // whether columns is counted
	columns  int  // the width of the line so far
	begun    bool // the line has a word
	from, at int  // offsets in b of the color and of the text, set by start
}

// begin begins a line that already has the given number of columns.
func (l *line) begin(columns int) { l.columns, l.begun = columns, false }

// next begins a word.
func (l *line) next() {
	if l.begun {
		l.b = append(l.b, ' ')
	}
	l.begun = true
	l.columns++
}

// start begins text of the given color, or without a color if color is "". The color ends at stop.
func (l *line) start(color string) {
	if l.from = len(l.b); l.colors && color != "" {
		l.b = append(append(append(l.b, "\x1b["...), color...), 'm')
	}
	l.at = len(l.b)
}

func (l *line) stop() {
	if len(l.b) == l.at {
		l.b = l.b[:l.from] // remove a color without text
		return
	}
	if l.measured {
		l.columns += utf8.RuneCount(l.b[l.at:])
	}
	if l.at > l.from {
		l.b = append(l.b, "\x1b[0m"...)
	}
}

// text appends texts to the current word, in a color.
func (l *line) text(color string, texts ...string) {
	l.start(color)
	for _, s := range texts {
		l.b = append(l.b, s...)
	}
	l.stop()
}

// word appends a word, unless s is empty.
func (l *line) word(color, s string) {
	if s != "" {
		l.next()
		l.text(color, s)
	}
}
