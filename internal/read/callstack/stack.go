// Package callstack reads the call stacks in a trace, and the processor time of each stack.
package callstack

import (
	"strconv"
	"strings"
)

// A Frame is a function and, if known, a line in it.
type Frame struct {
	Function, File string
	Line           int
}

// At reads the frame at the beginning of lines. n is the number of lines of the frame. ok is false if lines do not
// begin with a frame. A frame has one of two forms: one line "function file:line", or, as the runtime prints it, a
// line "function(…)" and a line with the file.
func At(lines []string) (f Frame, n int, ok bool) {
	line := strings.TrimSpace(lines[0])
	at := line
	if name, where, two := strings.Cut(line, " "); two && !strings.HasSuffix(line, ")") {
		f.Function, at, n = name, where, 1
	} else if len(lines) > 1 && strings.HasPrefix(lines[1], "\t") && strings.HasSuffix(line, ")") {
		f.Function, n = line[:max(0, strings.LastIndexByte(line, '('))], 2
		at, _, _ = strings.Cut(strings.TrimSpace(lines[1]), " +0x")
	} else {
		return Frame{}, 0, false
	}
	colon := strings.LastIndexByte(at, ':')
	if colon < 0 {
		return Frame{}, 0, false
	}
	number, err := strconv.ParseUint(at[colon+1:], 10, 31)
	f.File, f.Line = strings.ReplaceAll(at[:colon], `\`, "/"), int(number)
	return f, n, err == nil
}

const (
	maxFrames = 512
	maxText   = 64 << 10 // bytes
)

// Parse returns up to 512 frames of a stack in either form, the innermost first. If a line is not part of a frame,
// such as the address of a function without a name, the line itself becomes the function of a frame.
func Parse(text string) []Frame {
	var list []Frame
	for lines := strings.SplitN(strings.TrimRight(text[:min(len(text), maxText)], "\n"), "\n", 2*maxFrames); len(lines) > 0 && len(list) < maxFrames; {
		f, n, ok := At(lines)
		if !ok {
			f, n = Frame{Function: strings.TrimSpace(lines[0])}, 1
		}
		if f.Function != "" {
			list = append(list, f)
		}
		lines = lines[n:]
	}
	return list
}
