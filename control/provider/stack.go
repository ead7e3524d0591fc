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

// Limits of the text of a stack.
const (
	maxFrames     = 64
	maxStackBytes = 8 << 10

	ellipsis = "…"
)

// stack returns a line for each frame, innermost first, without a newline at the end. If the limits are
// exceeded, the last line is an ellipsis for all further frames.
func (g *group) stack() string {
	b := make([]byte, 0, 512)
	frames := 0
	for _, l := range g.locations {
		// A location without lines is one frame, with its address.
		for i := range max(len(l.Line), 1) {
			if len(b) > 0 {
				b = append(b, '\n')
			}
			start := len(b)
			b = appendFrame(b, l, i)
			frames++
			if frames > maxFrames || len(b) > maxStackBytes-len("\n"+ellipsis) {
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

// function returns the name of the innermost function for which wanted returns true. If there is no such function, it
// returns the name of the innermost function, or "unknown function" if the stack has no names.
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

// ofProgram reports whether the stack has a function outside of the standard library. Goroutines that the standard
// library has started for itself have no such function.
func (g *group) ofProgram() bool {
	for name := range g.functions() {
		if !inStandardLibrary(texts.PackageOf(name)) {
			return true
		}
	}
	return false
}

// inStandardLibrary reports whether the package pkg belongs to the standard library. It assumes that the
// paths of all other modules, except the program's own, have a dot in their first element.
func inStandardLibrary(pkg string) bool {
	first, _, _ := strings.Cut(pkg, "/")
	return pkg != "main" && !strings.Contains(first, ".") && first != firstOfMain()
}

// firstOfMain returns the first element of the path of the main module.
var firstOfMain = sync.OnceValue(func() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return ""
	}
	first, _, _ := strings.Cut(info.Main.Path, "/")
	return first
})

// module is the prefix of the names of functions of this module.
const module = "github.com/entrace-go/entrace/"

// own reports whether this module has started the goroutines of g, that is, whether their outermost function belongs
// to this module.
func (g *group) own() bool {
	for _, l := range slices.Backward(g.locations) {
		for i, line := range slices.Backward(l.Line) {
			name := functionName(l, i)
			if !texts.OfApplication(name) || name == "" {
				continue // for example sync.(*WaitGroup).Go
			}
			return strings.HasPrefix(name, module) && !strings.HasSuffix(line.Function.Filename, "_test.go")
		}
	}
	return false
}
