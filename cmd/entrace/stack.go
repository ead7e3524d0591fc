package main

import (
	"fmt"
	"path"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/entrace-go/entrace/internal/read/callstack"
)

// isStack reports whether the attribute name holds a call stack.
func isStack(name string) bool {
	name = name[strings.LastIndexByte(name, '.')+1:]
	return name == "stack" || name == "stacktrace"
}

// ofProgram reports whether a function belongs to the program. Functions of the runtime, and of packages that only
// wait or run other code, do not belong to it.
func ofProgram(function string) bool {
	for _, prefix := range []string{
		"runtime.", "runtime/", "sync.", "sync/", "internal/", "syscall.", "time.", "testing.", "go.opentelemetry.io/otel/sdk/",
	} {
		if strings.HasPrefix(function, prefix) {
			return false
		}
	}
	return function != "panic"
}

// ownFrame returns the first frame of a stack that belongs to the program, and the numbers of frames and lines
// before this frame. ok is false if the stack has no such frame.
func ownFrame(text string) (f callstack.Frame, frames, before int, ok bool) {
	lines := strings.Split(strings.TrimRight(text, "\n"), "\n")
	for at := 0; at < len(lines); {
		f, n, is := callstack.At(lines[at:])
		switch {
		case !is && at == 0 && strings.HasPrefix(lines[0], "goroutine "):
			at++
			continue
		case !is:
			return callstack.Frame{}, 0, 0, false
		case ofProgram(f.Function):
			return f, frames, at, true
		}
		frames++
		at += n
	}
	return callstack.Frame{}, 0, 0, false
}

// foldStack replaces the leading frames of the runtime in a stack by one line.
func foldStack(text string) string {
	_, frames, before, ok := ownFrame(text)
	if !ok || frames < 2 {
		return text
	}
	rest := strings.SplitAfterN(text, "\n", before+1)
	what := fmt.Sprintf("… %d frames of the runtime\n", frames)
	if strings.HasPrefix(text, "goroutine ") {
		what = rest[0] + what
	}
	return what + rest[before]
}

// placeIn returns the first place of the program in a stack, for the line of an entry. It omits the function if
// said, which is already in that line, names the function.
func placeIn(text, said string) string {
	f, _, _, ok := ownFrame(text)
	place := path.Base(f.File) + ":" + strconv.Itoa(f.Line)
	switch {
	case !ok:
		return ""
	case strings.Contains(said, f.Function) || !utf8.ValidString(f.Function):
		return place
	}
	return f.Function + " " + place
}
