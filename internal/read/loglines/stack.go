package loglines

import (
	"cmp"
	"regexp"
	"slices"
	"strings"

	"github.com/entrace-go/entrace/format"
	"github.com/entrace-go/entrace/internal/otel"
)

// continues reports whether a line without a shape of its own belongs to the record, because it is a frame of a stack
// or a line between frames. The parameter next is the text after the line.
func (r *Record) continues(line, next string) bool {
	if strings.HasPrefix(next, "\t/") && !strings.Contains(line, ": ") {
		return true // a function in a stack of Go; its place is in the next line
	}
	isError := r.Log.Severity >= severityError
	if isFrame(line) {
		return isError || !isLetter(line[0])
	}
	name, _, _ := strings.Cut(line, ":")
	isName := isLetter(line[0]) && !strings.ContainsAny(name, " \t=[{\"")
	if r.stack == "" {
		thrown := isError && isName && strings.Contains(name, ".") && (strings.HasSuffix(name, "Exception") || strings.HasSuffix(name, "Error"))
		// Postgres indents the lines of long statements with tabs, .NET the lines of all messages. Rust writes the reason of a panic after its place.
		return thrown || line[0] == '\t' || r.Shape.Name == "dotnet" && strings.HasPrefix(line, "      ") || strings.HasPrefix(r.Log.Body.Text, "thread '")
	}
	last := r.stack[strings.LastIndexByte(r.stack[:len(r.stack)-1], '\n')+1:]
	switch {
	case line[0] == ' ' || line[0] == '\t':
		return true
	case strings.HasPrefix(last, " ") && strings.Contains(r.stack, "  File \""):
		return isName // in Python, the error comes last
	}
	return strings.HasSuffix(line, ")") && strings.Contains(r.stack, "goroutine ") && !strings.Contains(line, " ")
}

// isFrame reports whether a line begins like a frame of a stack.
func isFrame(line string) bool {
	return slices.ContainsFunc(frames, func(frame string) bool { return strings.HasPrefix(line, frame) })
}

// add adds a line to the stack of the record, or to its message.
func (r *Record) add(line string) {
	switch {
	case len(r.stack)+len(r.Log.Body.Text)+len(line) > maxRecord:
	case r.stack == "" && line[0] <= ' ' && !isFrame(line):
		r.Log.Body.Text += "\n" + line
	default:
		r.stack += line + "\n"
	}
}

// stacked sets the attributes of an error, if the record has its stack.
func (r *Record) stacked() {
	l := &r.Log
	if r.stack == "" {
		return
	}
	stack := strings.TrimRight(r.stack, "\n")
	if strings.HasPrefix(l.Body.Text, "Traceback ") {
		stack = l.Body.Text + "\n" + stack
		l.Body.Text = stack[strings.LastIndexByte(stack, '\n')+1:]
	}
	if r.Log.Severity <= severityInfo && !r.has(aLevel) {
		l.Severity, l.SeverityText = severityError, "ERROR"
	}
	l.Attributes.Add("exception.stacktrace", format.StringValue(stack))
}

const (
	levelWithin  = 80  // the maximum number of bytes of a line before its level
	beforeWithin = 500 // the maximum number of bytes of the position in a file before a level
)

// levelBefore matches a level before a message, as compilers and runtimes print it, possibly after a position in a
// file: "main.c:3:5: error: …", "Error: …", "warning[E0425]: …", "ValueError: …", "npm ERR! …".
var levelBefore = regexp.MustCompile(`^(?:\S+:\s+)?(?:fatal (error):|(?i:(error|warning|fatal|panic))(?: [A-Z]+\d+|\[\w+\])?:|[A-Z][\w.]*(Error|Exception): |npm (ERR)!|Traceback \(|Exception in thread|Unhandled exception|thread '.*' panicked)`)

// levelWord matches a level in a line of plain text, in capitals or in brackets.
var levelWord = regexp.MustCompile(`\b(TRACE|DEBUG|INFO|NOTICE|WARN|WARNING|ERROR|CRITICAL|FATAL|PANIC)\b|\[(?i:(trace|debug|info|warn|warning|error|fatal))\]`)

// levelIn returns the level near the beginning of a line of text.
func levelIn(text string) (severity uint32, name string) {
	if m := levelWord.FindStringSubmatch(text[:min(len(text), levelWithin)]); m != nil {
		name = m[1] + m[2]
	} else if m := levelBefore.FindStringSubmatch(text[:min(len(text), beforeWithin)]); m != nil {
		name = cmp.Or(m[2]+m[4], "error")
	}
	severity, known := otel.SeverityNamed(name)
	if !known {
		severity = severityInfo
	}
	return severity, name
}
