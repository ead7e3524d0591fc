// Package show prints rows of a trace as text for people.
package show

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/entrace-go/entrace/format"
	"github.com/entrace-go/entrace/internal/text"
	"github.com/entrace-go/entrace/internal/text/jsontext"
)

// Safe escapes all parts of s that would act on a terminal: control characters, characters that change the
// direction of text, and bytes that are not UTF-8.
func Safe(s string) string {
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

// colors matches the sequences with which programs color text.
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

// Short returns the first n runes of s, followed by … if s is longer. It does not divide a character that consists of
// several runes.
func Short(s string, n int) string {
	for i := range s {
		if n == 0 {
			return text.Head(s, i) + "…"
		}
		n--
	}
	return s
}

// quotes escapes a text in quotes. It keeps the sequences that color text, which Safe would remove, because the text
// can be copied into a query.
var quotes = strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\x1b", `\x1b`)

// AppendValue appends a value as text for people. A text in quotes can be copied into a query.
func AppendValue(b []byte, v format.Value) []byte {
	switch v.Kind() {
	case format.KindString:
		s := v.Text()
		if s == "" || strings.ContainsAny(s, " \"=\n\t") {
			s = `"` + quotes.Replace(s) + `"`
		}
		return append(b, Safe(s)...)
	case format.KindBytes:
		if mostlyText(v.Bytes()) { // v is a text with a few bytes that are not UTF-8
			return append(b, Safe("b"+strconv.Quote(v.Text()))...)
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

// mostlyText reports whether most of b is readable text.
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
	Dim    = "2"
	Bold   = "1"
	Red    = "31"
	Yellow = "33"
	Green  = "32"
	Blue   = "34"
)

// LevelColor returns the color of a level.
func LevelColor(l format.Level) string {
	switch l {
	case format.LevelTrace:
		return Dim
	case format.LevelDebug:
		return Blue
	case format.LevelInfo:
		return Green
	case format.LevelWarn:
		return Yellow
	}
	return Red
}

// A Line builds a line of words, which are separated by spaces.
type Line struct {
	B        []byte
	Colors   bool
	Measured bool // whether to count Columns
	Columns  int  // the width of the line so far
	begun    bool // the line has a word
	from, at int  // set by Start: the offsets of the color and of the text in B
}

// Begin begins a line after the given number of columns.
func (l *Line) Begin(columns int) { l.Columns, l.begun = columns, false }

// Next begins a word.
func (l *Line) Next() {
	if l.begun {
		l.B = append(l.B, ' ')
	}
	l.begun = true
	l.Columns++
}

// Start begins a text of the given color, or of no color if color is "". Stop ends it.
func (l *Line) Start(color string) {
	l.from = len(l.B)
	if l.Colors && color != "" {
		l.B = append(append(append(l.B, "\x1b["...), color...), 'm')
	}
	l.at = len(l.B)
}

// Stop ends the text that Start began, and its color.
func (l *Line) Stop() {
	if len(l.B) == l.at {
		l.B = l.B[:l.from] // remove the color, because there is no text
		return
	}
	if l.Measured {
		l.Columns += utf8.RuneCount(l.B[l.at:])
	}
	if l.at > l.from {
		l.B = append(l.B, "\x1b[0m"...)
	}
}

// Text appends texts of one color to the current word.
func (l *Line) Text(color string, texts ...string) {
	l.Start(color)
	for _, s := range texts {
		l.B = append(l.B, s...)
	}
	l.Stop()
}

// Word appends a word, unless s is empty.
func (l *Line) Word(color, s string) {
	if s != "" {
		l.Next()
		l.Text(color, s)
	}
}
