package main

import (
	"fmt"
	"path"
	"strings"
	"unicode/utf8"
)

// isStack reports whether the attribute name holds a call stack.
func isStack(name string) bool {
	name = name[strings.LastIndexByte(name, '.')+1:]
	return name == "stack" || name == "stacktrace"
}

// A frame is one frame of a call stack. lines is how many lines of the text it fills.
type frame struct {
	function, place string // the place is a file and a line, such as main.go:121
	lines           int
}

// frameAt reads the frame at the beginning of lines. ok is false if the lines do not begin with a frame.
// A frame is the line "function file:line", or, in the form of the runtime, the line "function(…)"
// and a second line with the file.
func frameAt(lines []string) (f frame, ok bool) {
	line := strings.TrimSpace(lines[0])
	at := line
	if name, where, two := strings.Cut(line, " "); two && !strings.HasSuffix(line, ")") {
		f.function, at, f.lines = name, where, 1
	} else if len(lines) > 1 && strings.HasPrefix(lines[1], "\t") && strings.HasSuffix(line, ")") {
		f.function, f.lines = line[:max(0, strings.LastIndexByte(line, '('))], 2
		at, _, _ = strings.Cut(strings.TrimSpace(lines[1]), " +0x")
	} else {
		return frame{}, false
	}
	colon := strings.LastIndexByte(at, ':')
	if colon < 0 || colon+1 == len(at) || strings.Trim(at[colon+1:], "0123456789") != "" {
		return frame{}, false
	}
	f.place = path.Base(strings.ReplaceAll(at, `\`, "/"))
	return f, true
}

// ofProgram reports whether a function belongs to the program. Functions of the runtime and of packages
// that only wait or run code for others do not.
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

// ownFrame returns the first frame of a stack that belongs to the program, and how many frames and
// lines are before it. ok is false if the stack has no such frame.
func ownFrame(stack string) (f frame, frames, before int, ok bool) {
	lines := strings.Split(strings.TrimRight(stack, "\n"), "\n")
	for at := 0; at < len(lines); {
		f, is := frameAt(lines[at:])
		switch {
		case !is && at == 0 && strings.HasPrefix(lines[0], "goroutine "):
			at++
			continue
		case !is:
			return frame{}, 0, 0, false
		case ofProgram(f.function):
			return f, frames, at, true
		}
		frames++
		at += f.lines
	}
	return frame{}, 0, 0, false
}

// foldStack replaces the leading frames of the runtime in a stack by one line.
func foldStack(stack string) string {
	_, frames, before, ok := ownFrame(stack)
	if !ok || frames < 2 {
		return stack
	}
	rest := strings.SplitAfterN(stack, "\n", before+1)
	what := fmt.Sprintf("… %d frames of the runtime\n", frames)
	if strings.HasPrefix(stack, "goroutine ") {
		what = rest[0] + what
	}
	return what + rest[before]
}

// placeIn returns the first place of the program in a stack, for the line of an entry. It leaves the
// function out if the text said, which is in that line already, names it.
func placeIn(stack, said string) string {
	f, _, _, ok := ownFrame(stack)
	switch {
	case !ok:
		return ""
	case strings.Contains(said, f.function) || !utf8.ValidString(f.function):
		return f.place
	}
	return f.function + " " + f.place
}
