// Package fit shortens the answer of a command to a number of bytes. It counts the rows, lines and texts left out.
package fit

import (
	"bytes"
	"fmt"
	"strings"

	"github.com/entrace-go/entrace/internal/text"
)

// An Answer is a writer that collects the output of a command. Finish writes as much of it as fits.
type Answer struct {
	Most int  // the maximum number of bytes, without the last line
	JSON bool // the output is JSON: one object, or an object on each line
	Left Left // the numbers of rows that the command has left out itself

	pending []byte     // the beginning of a line
	parts   [][]string // lines of text; an empty line is between two parts
	sizes   []int      // the number of bytes of each part
	values  [][]byte   // the first JSON objects of the output
	objects int        // the number of objects in the output
	size    int        // the number of bytes of values
	folds   [][]byte
}

// Left has the numbers of rows, lines and texts that an answer leaves out, and the numbers that it would have in full.
type Left struct {
	Rows, OfRows   int
	Folded, Folds  int // Folds lines replace Folded of the Rows, several rows each
	Lines, OfLines int
	Texts          int // the number of long texts that are shortened
}

// Write collects a part of the output.
func (a *Answer) Write(b []byte) (int, error) {
	n := len(b)
	for {
		line, rest, whole := bytes.Cut(b, []byte("\n"))
		a.pending = append(a.pending, line...)
		if !whole {
			return n, nil
		}
		if a.JSON {
			a.addJSON(a.pending)
		} else {
			a.addLine(string(a.pending))
		}
		a.pending, b = a.pending[:0], rest
	}
}

// addLine adds a line of text. It only counts the line if its part already has more than Most bytes.
func (a *Answer) addLine(line string) {
	last := len(a.parts) - 1
	if line == "" || last < 0 {
		a.parts, a.sizes = append(a.parts, nil), append(a.sizes, 0)
		last++
	}
	if line == "" {
		return
	}
	a.Left.OfLines++
	if a.sizes[last] <= a.Most {
		line = a.Left.Shortened(line, a.mostLine())
		a.parts[last] = append(a.parts[last], line)
		a.sizes[last] += len(line) + 1
	}
}

// Room returns how many bytes are left for rows.
func (a *Answer) Room() int {
	room := a.Most
	for _, n := range a.sizes {
		room -= n
	}
	if a.JSON {
		room -= len(`{"rows":[],"folds":[],`) + 1
	}
	return max(room, 0)
}

// Size returns the maximum number of bytes that lines of text, or an object if the output is JSON, need in the answer.
func (a *Answer) Size(lines []byte) (size int) {
	if a.JSON {
		return len(lines) + len(`"",`)
	}
	for line := range bytes.Lines(lines) {
		size += min(len(line), a.mostLine()+40) + 1
	}
	return size
}

// mostLine returns the number of bytes to which a long line is shortened.
func (a *Answer) mostLine() int { return max(a.Most/4, 80) }

// Shortened returns s. If s has clearly more than most bytes, Shortened returns its beginning and its number of bytes.
func (l *Left) Shortened(s string, most int) string {
	if len(s) <= most+len("… (9999999 bytes)") {
		return s
	}
	l.Texts++
	return text.Head(s, most) + "… (" + fmt.Sprint(len(s)) + " bytes)"
}

// fitted returns the lines that fit. It takes the first line of each part, then the second line of each part, and so
// on. It takes no more lines of a part after a line that does not fit.
func (a *Answer) fitted() []byte {
	shown, size := make([]int, len(a.parts)), 0
	more := true
	for more {
		more = false
		for i, lines := range a.parts {
			n := shown[i]
			if n < 0 || n == len(lines) {
				continue
			}
			cost := len(lines[n]) + 1
			if n == 0 && i > 0 {
				cost++
			}
			if size+cost > a.Most {
				shown[i] = ^n // no other line of the part: a later one that fits would hide the gap
				continue
			}
			size += cost
			shown[i]++
			more = true
		}
	}
	a.Left.Lines = a.Left.OfLines
	var parts []string
	for i, lines := range a.parts {
		n := max(shown[i], ^shown[i])
		if n > 0 {
			parts = append(parts, strings.Join(lines[:n], "\n")+"\n")
			a.Left.Lines -= n
		}
	}
	return []byte(strings.Join(parts, "\n"))
}

// Empty reports whether nothing was written.
func (a *Answer) Empty() bool { return len(a.parts)+len(a.values)+len(a.pending) == 0 }

// Finish returns the part of the output that fits. If something is left out, or the output is JSON, a last line
// follows: it has the numbers of omitted rows, lines and texts, and names command, which prints everything.
func (a *Answer) Finish(command string) []byte {
	if a.JSON {
		return a.finishJSON(command)
	}
	if len(a.pending) > 0 {
		a.addLine(string(a.pending))
	}
	b := a.fitted()
	if left := a.Left.String(); left != "" {
		last := "left out: " + left + "; all: "
		if len(last)+len(command) > maxLast {
			command = sameCommand
		}
		b = append(b, last+command+"\n"...)
	}
	return b
}

// maxLast is the maximum size of the last line. If the line would be longer, it has sameCommand instead of the command.
const (
	maxLast     = 300
	sameCommand = "the same command with --budget 0"
)

// String returns the numbers of rows, lines and texts that the answer lacks, or "" if it is complete.
func (l *Left) String() string {
	var parts []string
	add := func(n int, format string, numbers ...any) {
		if n > 0 {
			parts = append(parts, fmt.Sprintf(format, numbers...))
		}
	}
	add(l.Rows, "%d of %d rows", l.Rows, l.OfRows)
	add(l.Folded, "%d of these rows are in folded lines, %d", l.Folded, l.Folds)
	add(l.Lines, "%d of %d lines", l.Lines, l.OfLines)
	add(l.Texts, "ends of long strings, %d", l.Texts)
	return strings.Join(parts, "; ")
}
