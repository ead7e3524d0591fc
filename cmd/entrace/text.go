package main

import (
	"encoding/json"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/entrace-go/entrace/format"
	"github.com/entrace-go/entrace/internal/read/show"
	"github.com/entrace-go/entrace/internal/text/jsontext"
	"github.com/entrace-go/entrace/internal/text/quantity"
)

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

func (a *app) paint(color, s string) string {
	if !a.color || s == "" {
		return s
	}
	return "\x1b[" + color + "m" + s + "\x1b[0m"
}

func (a *app) level(l format.Level) string { return a.paint(show.LevelColor(l), l.String()) }

// duration returns d, in nanoseconds, with about three digits.
func duration[D int64 | time.Duration](d D) string {
	return string(quantity.AppendShort(nil, time.Duration(d)))
}

// count returns n with the singular noun one or the plural noun more.
func count(n int, one, more string) string {
	if n == 1 {
		return "1 " + one
	}
	return strconv.Itoa(n) + " " + more
}

// plural returns n with a noun whose plural has an s.
func plural(n int, noun string) string { return count(n, noun, noun+"s") }
