package main

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/entrace-go/entrace/internal/text/jsontext"
	"github.com/entrace-go/entrace/internal/text/quantity"
)

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

// shellQuoted returns a text as one argument of a shell.
func shellQuoted(s string) string { return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'" }

// shellWord returns a text as one argument of a shell, with quotes only if it needs them.
func shellWord(s string) string {
	if s == "" || strings.ContainsAny(s, " \t\n'\"\\$`&|;<>()*?[]#~!{}") {
		s = shellQuoted(s)
	}
	return s
}

// shellLine returns a command line of entrace.
func shellLine(args []string) string {
	words := []string{"entrace"}
	for _, arg := range args {
		words = append(words, shellWord(arg))
	}
	return strings.Join(words, " ")
}

func clampDuration(n uint64) time.Duration { return time.Duration(min(n, math.MaxInt64)) }
