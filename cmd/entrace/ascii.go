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

// inASCII has what tree prints that is not ASCII.
var inASCII = strings.NewReplacer(
	"└─", "`-", "├─", "|-", "│", "|", "⋯", "...", "…", "...", "→", "->", "•", "*", "µ", "u", "≥", ">=",
)

// An asciiWriter writes the characters that a tree is drawn with as ASCII, also where texts of the
// trace have them. What is written at once must not end within a character.
type asciiWriter struct{ w io.Writer }

func (a asciiWriter) Write(p []byte) (int, error) {
	if _, err := inASCII.WriteString(a.w, string(p)); err != nil {
		return 0, err
	}
	return len(p), nil
}
