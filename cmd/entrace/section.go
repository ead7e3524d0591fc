package main

import (
	"bufio"
	"bytes"
	"fmt"
	"iter"
	"strings"
	"unicode/utf8"

	"github.com/rivo/uniseg"
)

// A section is a part of an answer: a head, lines in columns, and a note. Its texts are safe for a terminal. Head and
// note may have several lines, or be empty.
type section struct {
	head  string
	sides string             // has an r or an l for each column, for right or left alignment
	lines iter.Seq[[]string] // the texts of the columns, or nil; they are iterated over twice
	note  string
}

// printSections prints sections with an empty line between them. It leaves out empty ones. Flush of w returns the errors.
func printSections(w *bufio.Writer, sections ...section) {
	between := ""
	for i := range sections {
		s := &sections[i]
		if s.head == "" && s.lines == nil && s.note == "" {
			continue
		}
		fmt.Fprint(w, between)
		between = "\n"
		if s.head != "" {
			fmt.Fprintln(w, s.head)
		}
		if s.lines != nil {
			s.printLines(w)
		}
		if s.note != "" {
			fmt.Fprintln(w, s.note)
		}
	}
}

// printLines prints the lines in columns. It keeps only one line in memory.
func (s *section) printLines(w *bufio.Writer) {
	width := make([]int, len(s.sides))
	for line := range s.lines {
		for i, text := range line {
			width[i] = max(width[i], widthOf(plain(text)))
		}
	}
	var b bytes.Buffer
	for line := range s.lines {
		b.Reset()
		for i, text := range line {
			pad := strings.Repeat(" ", width[i]-widthOf(plain(text)))
			if s.sides[i] == 'r' {
				text, pad = pad+text, ""
			}
			b.WriteString(text)
			if i < len(line)-1 {
				b.WriteString(pad + "  ")
			}
		}
		b.WriteByte('\n')
		if _, err := w.Write(b.Bytes()); err != nil {
			return
		}
	}
}

// widthOf returns how many columns of a terminal s takes. Characters of East Asian scripts take two.
func widthOf(s string) int {
	for i := range len(s) {
		if s[i] >= utf8.RuneSelf {
			return uniseg.StringWidth(s)
		}
	}
	return len(s)
}

// plain returns s without the escape sequences of paint and link.
func plain(s string) string {
	for {
		before, after, found := strings.Cut(s, "\x1b[")
		if !found {
			return s
		}
		_, after, _ = strings.Cut(after, "m")
		s = before + after
	}
}
