package main

import (
	"cmp"
	"io"
	"os"
	"runtime"
	"strings"
)

// isASCII reports whether the environment asks for a locale without UTF-8.
func isASCII() bool {
	locale := strings.ToUpper(cmp.Or(os.Getenv("LC_ALL"), os.Getenv("LC_CTYPE"), os.Getenv("LANG")))
	return runtime.GOOS != "windows" && (locale == "C" || locale == "POSIX")
}

// inASCII replaces the non-ASCII characters that tree prints.
var inASCII = strings.NewReplacer(
	"└─", "`-", "├─", "|-", "│", "|", "⋯", "...", "…", "...", "→", "->", "•", "*", "µ", "u", "≥", ">=",
)

// An asciiWriter replaces the characters that draw a tree by ASCII, even in the texts of the trace. The bytes of
// one Write must be whole characters.
type asciiWriter struct{ w io.Writer }

func (a asciiWriter) Write(p []byte) (int, error) {
	if _, err := inASCII.WriteString(a.w, string(p)); err != nil {
		return 0, err
	}
	return len(p), nil
}
