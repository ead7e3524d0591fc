package folded

import (
	"bufio"
	"cmp"
	"context"
	"fmt"
	"io"
	"maps"
	"math"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/entrace-go/entrace/internal/text/jsontext"
	"github.com/entrace-go/entrace/view"
)

const (
	// maxFrames is the maximum depth of a stack. Without a limit, the total size of the lines for a chain of spans
	// would grow with the square of the chain's length.
	maxFrames  = 512
	maxStack   = 16 << 10 // the maximum size of a stack, in bytes
	bufferSize = 64 << 10
	checkEvery = 4096 // number of rows or lines between two checks of the context
)

// EncodeFolded writes the spans of v to w as folded stacks of self time in nanoseconds. The package documentation
// describes folded stacks. The error is an error of v, w or ctx.
func EncodeFolded(ctx context.Context, w io.Writer, v *view.View) error {
	all := make(stacks)
	type frame struct {
		*stack

		service string
	}
	var above []frame // for each row above the current one, the stack of the nearest span
	visited := 0
	err := v.Walk(0, func(r view.Row, depth int, _ bool) error {
		visited++
		if visited%checkEvery == 0 && ctx.Err() != nil {
			return ctx.Err()
		}
		above = above[:depth]
		var here frame
		if depth > 0 {
			here = above[depth-1]
		}
		if v.Role(r) == view.RoleSpan {
			if service := cmp.Or(v.Service(r), unknownService); here.stack == nil || service != here.service {
				here = frame{all.down(nil, service), service}
			}
			here.stack = all.down(here.stack, v.Name(r))
			self, _ := v.SelfTime(r)
			here.count(uint64(self))
		}
		above = append(above, here)
		return nil
	})
	if err := cmp.Or(err, ctx.Err()); err != nil {
		return err
	}
	return all.write(ctx, w)
}

// unknownService is OpenTelemetry's name for a service without a name.
const unknownService = "unknown_service"

// separator is between the frames of a stack. It sorts before all characters of names, so stacks are in order if their
// frames are.
const separator = "\x00"

// stacks holds all stacks, by their text.
type stacks map[string]*stack

// A stack is a list of frames.
type stack struct {
	text string
	self uint64 // self time in nanoseconds of the spans with this stack
}

// down returns the stack that has one more frame than up, which may be nil. If up is already too long, down returns up.
func (s stacks) down(up *stack, name string) *stack {
	if !isPlain(name) {
		name = string(appendName(nil, name))
	}
	var key []byte
	if up != nil {
		above := strings.Count(up.text, separator)
		if above+1 >= maxFrames || len(up.text)-above+len(name) >= maxStack {
			return up
		}
		key = append([]byte(up.text), separator...)
	}
	key = append(key, name...)
	at, known := s[string(key)]
	if !known {
		at = &stack{text: string(key)}
		s[at.text] = at
	}
	return at
}

// count adds nano to the self time of a stack.
func (s *stack) count(nano uint64) {
	s.self += nano
	if s.self < nano {
		s.self = math.MaxUint64
	}
}

// write writes a line for each stack with a self time, sorted by name, frame by frame.
func (s stacks) write(ctx context.Context, w io.Writer) error {
	out := bufio.NewWriterSize(w, bufferSize)
	for i, text := range slices.Sorted(maps.Keys(s)) {
		if i%checkEvery == 0 && ctx.Err() != nil {
			return ctx.Err()
		}
		if self := s[text].self; self > 0 {
			if _, err := fmt.Fprintf(out, "%s %d\n", strings.ReplaceAll(text, separator, ";"), self); err != nil {
				return err
			}
		}
	}
	return out.Flush()
}

// isPlain reports whether appendName would certainly not change s. It is a quick check.
func isPlain(s string) bool {
	for i := range len(s) {
		if c := s[i]; c <= ' ' || c >= 0x7f || c == ';' {
			return false
		}
	}
	return s != ""
}

// appendName appends s as the name of a frame.
func appendName(b []byte, s string) []byte {
	from := len(b)
	for _, r := range strings.TrimSpace(s) {
		switch {
		case r == ';':
			b = append(b, ':')
		case jsontext.Acts(r):
			b = append(b, ' ')
		default:
			b = utf8.AppendRune(b, r)
		}
	}
	// Trim now, because the loop may have made spaces.
	name := strings.TrimSpace(string(b[from:]))
	b = append(b[:from], name...)
	if name == "" {
		return append(b, "(unnamed)"...)
	}
	if blank := countBlank(name); blank >= 0 {
		b[from+blank] = '_'
	}
	return b
}

// countBlank returns the offset of the space before a number at the end of name, or -1 if there is none. Readers would
// mistake this number for the time.
func countBlank(name string) int {
	at := strings.LastIndexByte(name, ' ')
	if strings.Trim(name[at+1:], "0123456789.") != "" {
		return -1
	}
	return at
}
