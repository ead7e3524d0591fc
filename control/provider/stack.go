package provider

import (
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/google/pprof/profile"

	texts "github.com/entrace-go/entrace/internal/text"
)

// Bounds on the text of a stack.
const (
	maxFrames     = 64
	maxStackBytes = 8 << 10

	ellipsis = "…"
)

// stack returns a line for each frame, innermost first, without a newline at the
// end. What is over the bounds is one line with an ellipsis.
func (g *group) stack() string {
	b := make([]byte, 0, 512)
	frames := 0
	for _, l := range g.locations {
		// A location without lines is an address.
		for i := range max(len(l.Line), 1) {
			start := len(b)
			if start > 0 {
				b = append(b, '\n')
			}
			b = appendFrame(b, l, i)
			if frames++; frames > maxFrames || len(b) > maxStackBytes-len("\n"+ellipsis) {
				b = b[:start]
				if start > 0 {
					b = append(b, '\n')
				}
				return string(append(b, ellipsis...))
			}
		}
	}
	return string(b)
}

// appendFrame appends "function file:line" of line i of l, or the address.
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

// function returns the name of the innermost function for which wanted is true, of
// the innermost one if there is none, and "unknown function" for a stack without
// names.
func (g *group) function(wanted func(name string) bool) string {
	first := ""
	for _, l := range g.locations {
		for i := range l.Line {
			name := functionName(l, i)
			if name == "" {
				continue
			}
			if wanted(name) {
				return texts.Cut(name, maxLabelValue)
			}
			if first == "" {
				first = name
			}
		}
	}
	if first == "" {
		return "unknown function"
	}
	return texts.Cut(first, maxLabelValue)
}

// fromApplication reports whether a function is none of those that only wait or
// run for others: of the runtime, of locks, timers and system calls.
func fromApplication(name string) bool {
	switch first, _, _ := strings.Cut(packageOf(name), "/"); first {
	case "", "runtime", "internal", "sync", "syscall", "time":
		return false
	}
	return !strings.HasPrefix(name, "golang.org/x/sys/")
}

// ofProgram reports whether a function of the stack is not of the standard library, which runs
// goroutines of its own for what the program does.
func (g *group) ofProgram() bool {
	for _, l := range g.locations {
		for i := range l.Line {
			if name := functionName(l, i); name != "" && !inStandardLibrary(packageOf(name)) {
				return true
			}
		}
	}
	return false
}

// inStandardLibrary reports whether a package is not of a module. The name of a module that is not
// the program's own has a dot in its first element.
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

// packageOf returns the import path in the name of a function, "" for one that has
// none, such as of C.
func packageOf(name string) string {
	// Type arguments may have import paths of their own.
	name, _, _ = strings.Cut(name, "[")
	slash := strings.LastIndexByte(name, '/') + 1
	dot := strings.IndexByte(name[slash:], '.')
	if dot < 0 {
		return ""
	}
	return name[:slash+dot]
}

// module begins the names of this module's functions.
const module = "github.com/entrace-go/entrace/"

// own reports whether the goroutines are this module's: of what they were started to run.
// Those of the application that only call it are not.
func (g *group) own() bool {
	for _, l := range slices.Backward(g.locations) {
		for i, line := range slices.Backward(l.Line) {
			name := functionName(l, i)
			if !fromApplication(name) || name == "" {
				continue // such as sync.(*WaitGroup).Go
			}
			return strings.HasPrefix(name, module) && !strings.HasSuffix(line.Function.Filename, "_test.go")
		}
	}
	return false
}
