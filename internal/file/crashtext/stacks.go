package crashtext

import (
	"regexp"
	"strings"

	texts "github.com/entrace-go/entrace/internal/text"
)

// A Stack is a stack that one or more goroutines of a crash text have, which worked for the same span.
type Stack struct {
	Trace, Span string // ids, in hexadecimal digits
	Function    string // the innermost function of the program
	Lines       string // a line "function file:line" for each function, the innermost first
	Count       int    // number of goroutines with this stack
}

const (
	maxStacks = 2000
	maxLines  = 64 // maximum number of lines of a stack
)

// labeled matches the first line of a goroutine with labels. Its stack follows.
var labeled = regexp.MustCompile(`^goroutine \d+ [^\[]*\[.* labels:(\{.*\})\]:$`)

// Stacks returns the stacks of the goroutines whose labels name a span, at most 2,000. Goroutines with equal
// stacks for the same span share a Stack.
func Stacks(text string) []Stack {
	var all []Stack
	known := make(map[Stack]int)
	for block := range strings.SplitSeq(text, "\n\n") {
		head, rest, _ := strings.Cut(block, "\n")
		m := labeled.FindStringSubmatch(head)
		if m == nil {
			continue
		}
		trace, span := idsIn(m[1])
		if trace == "" {
			continue
		}
		s := Stack{Trace: trace, Span: span}
		s.Function, s.Lines = linesOf(rest)
		if i, ok := known[s]; ok {
			all[i].Count++
			continue
		}
		if len(all) == maxStacks {
			break
		}
		known[s] = len(all)
		s.Count = 1
		all = append(all, s)
	}
	return all
}

// linesOf returns the lines of a stack, and the innermost function that belongs to the program.
func linesOf(text string) (function, lines string) {
	var b strings.Builder
	n, first := 0, ""
	for text != "" && n < maxLines {
		var call, place string
		call, text, _ = strings.Cut(text, "\n")
		place, text, _ = strings.Cut(text, "\n")
		place, isPlace := strings.CutPrefix(place, "\t")
		if !isPlace || strings.HasPrefix(call, "created by ") {
			break
		}
		name := call
		if end := strings.LastIndexByte(call, '('); end > 0 { // remove the arguments
			name = call[:end]
		}
		place, _, _ = strings.Cut(place, " +0x")
		n++
		if n > 1 {
			b.WriteByte('\n')
		}
		b.WriteString(name + " " + place)
		if first == "" {
			first = name
		}
		if function == "" && texts.OfApplication(name) {
			function = name
		}
	}
	if function == "" {
		function = first
	}
	return function, b.String()
}
