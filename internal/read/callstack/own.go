package callstack

import (
	"path"
	"strconv"
	"strings"
	"unicode/utf8"
)

// OfProgram reports whether a function belongs to the program itself. Functions of the runtime do not belong to it,
// nor do functions of packages that only wait or run other code.
func OfProgram(function string) bool {
	for _, prefix := range []string{
		"runtime.", "runtime/", "sync.", "sync/", "internal/", "syscall.", "time.", "testing.", "go.opentelemetry.io/otel/sdk/",
	} {
		if strings.HasPrefix(function, prefix) {
			return false
		}
	}
	return function != "panic"
}

// Own returns the first frame of a stack that belongs to the program itself, and the numbers of frames and of
// lines before this frame. ok is false if the stack has no such frame.
func Own(text string) (f Frame, frames, before int, ok bool) {
	lines := strings.Split(strings.TrimRight(text, "\n"), "\n")
	for at := 0; at < len(lines); {
		f, n, is := At(lines[at:])
		switch {
		case !is && at == 0 && strings.HasPrefix(lines[0], "goroutine "):
			at++
			continue
		case !is:
			return Frame{}, 0, 0, false
		case OfProgram(f.Function):
			return f, frames, at, true
		}
		frames++
		at += n
	}
	return Frame{}, 0, 0, false
}

// Place returns the position in the code of the first frame that belongs to the program itself, for the line of an
// entry. The parameter said is the text that the line already has: if said contains the name of the function, Place
// omits the function.
func Place(text, said string) string {
	f, _, _, ok := Own(text)
	place := path.Base(f.File) + ":" + strconv.Itoa(f.Line)
	switch {
	case !ok:
		return ""
	case strings.Contains(said, f.Function) || !utf8.ValidString(f.Function):
		return place
	}
	return f.Function + " " + place
}
