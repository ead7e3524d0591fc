package main

import (
	"fmt"
	"path"
	"strings"
	"unicode/utf8"
)

// isStack reports whether an attribute is a stack.
func isStack(name string) bool {
	name = name[strings.LastIndexByte(name, '.')+1:]
	return name == "stack" || name == "stacktrace"
}

// A frame is one of a stack, and the lines that it takes there.
type frame struct {
	function, place string // the place is a file and a line, as main.go:121
	lines           int
}

// frameAt returns the frame that the lines of a stack begin with, ok is false if that is none. A
// frame is "function file:line", or, as the runtime prints it, "function(…)" and a line of its own
// for the file.
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

// ofProgram reports whether a function is none of those that only wait or run for others.
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

// ownFrame returns the first frame of a stack that is the program's, and how many frames and lines
// are before it; ok is false if there is none.
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

// foldStack returns a stack whose leading frames of the runtime are one line.
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

// placeIn returns where in the program a stack is, for the line of an entry that already says said.
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
