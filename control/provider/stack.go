package provider

import (
	"cmp"
	"iter"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/google/pprof/profile"

	texts "github.com/entrace-go/entrace/internal/text"
)

// Limits for the text of a stack.
const (
	maxFrames     = 64
	maxStackBytes = 8 << 10

	ellipsis = "…"
)

// stack returns a line for each frame, innermost first, without a newline at the end. One line with an ellipsis
// replaces all frames over the limits.
func (g *group) stack() string {
	b := make([]byte, 0, 512)
	frames := 0
	for _, l := range g.locations {
		// A location without lines has only an address, and counts as one frame.
		for i := range max(len(l.Line), 1) {
			if len(b) > 0 {
				b = append(b, '\n')
			}
			start := len(b)
			b = appendFrame(b, l, i)
			if frames++; frames > maxFrames || len(b) > maxStackBytes-len("\n"+ellipsis) {
				return string(append(b[:start], ellipsis...))
			}
		}
	}
	return string(b)
}

// appendFrame appends "function file:line" for line i of l, or the address of l if the function is
// unknown.
func appendFrame(b []byte, l *profile.Location, i int) []byte {
	name := functionName(l, i)
	if name == "" {
		return strconv.AppendUint(append(b, "0x"...), l.Address, 16)
	}
	b = append(b, name...)
	line := &l.Line[i]
	if line.Function.Filename != "" {
		b = append(b, ' ')
		b = append(b, line.Function.Filename...)
		b = append(b, ':')
		b = strconv.AppendInt(b, line.Line, 10)
	}
	return b
}

func functionName(l *profile.Location, i int) string {
	if i >= len(l.Line) || l.Line[i].Function == nil {
		return ""
	}
	return l.Line[i].Function.Name
}

// functions returns the names of the functions of the stack, innermost first.
func (g *group) functions() iter.Seq[string] {
	return func(yield func(string) bool) {
		for _, l := range g.locations {
			for i := range l.Line {
				if name := functionName(l, i); name != "" && !yield(name) {
					return
				}
			}
		}
	}
}

// function returns the name of the innermost function for which wanted returns true. If there is no such
// function, it returns the name of the innermost function, or "unknown function" for a stack without names.
func (g *group) function(wanted func(name string) bool) string {
	first := ""
	for name := range g.functions() {
		if wanted(name) {
			return texts.Cut(name, maxLabelValue)
		}
		first = cmp.Or(first, name)
	}
	return texts.Cut(cmp.Or(first, "unknown function"), maxLabelValue)
}

// ofProgram reports whether a function of the stack is outside of the standard library. It returns false for
// goroutines that the standard library runs for the program.
func (g *group) ofProgram() bool {
	for name := range g.functions() {
		if !inStandardLibrary(texts.PackageOf(name)) {
			return true
		}
	}
	return false
}

// inStandardLibrary reports whether pkg belongs to the standard library. It assumes that the path
// of a module, except the program's own, has a dot in its first element.
func inStandardLibrary(pkg string) bool {
	first, _, _ := strings.Cut(pkg, "/")
	return pkg != "main" && !strings.Contains(first, ".") && first != firstOfMain()
}

// firstOfMain returns the first element of the path of the program's module.
var firstOfMain = sync.OnceValue(func() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return ""
	}
	first, _, _ := strings.Cut(info.Main.Path, "/")
	return first
})

// module is the prefix of the names of this module's functions.
const module = "github.com/entrace-go/entrace/"

// own reports whether this module started the goroutines of g, which is the case if their outermost function
// belongs to it. Goroutines of the application that only call this module do not count.
func (g *group) own() bool {
	for _, l := range slices.Backward(g.locations) {
		for i, line := range slices.Backward(l.Line) {
			name := functionName(l, i)
			if !texts.OfApplication(name) || name == "" {
				continue // such as sync.(*WaitGroup).Go
			}
			return strings.HasPrefix(name, module) && !strings.HasSuffix(line.Function.Filename, "_test.go")
		}
	}
	return false
}
