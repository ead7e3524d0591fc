package crashtext

import (
	"path"
	"regexp"
	"strings"
)

// Reason returns the reason in a crash text, and the line of the program. The reason is usually the first line. For
// some fatal errors, the text begins with a stack and has the error elsewhere. Reason then infers the error from the
// stacks. Equal errors then have equal reasons.
func Reason(text string) string {
	first, rest, _ := strings.Cut(text, "\n")
	if !startsWithStack(first) {
		place := ""
		if namesGoroutine(text) {
			place = placeIn(rest)
		}
		// Read has added the reason to a text that began with a stack. OpenTelemetry's span.End recovers a panic, and panics
		// again with its value.
		return strings.TrimSuffix(strings.TrimSuffix(first, place), " [recovered, repanicked]") + place
	}
	stacks := strings.Split(text, "\n\n")
	var what string
	var where frame
	for i, stack := range stacks[:min(len(stacks), 2)] { // the stack of the runtime comes before the stack of the goroutine
		state, list := framesOf(stack)
		if i > 0 && where.function != "" {
			break
		}
		for _, f := range list {
			if what == "" && where.function == "" {
				what = causeOf(f.function)
			}
			if f.owned() > where.owned() {
				where = f
			}
		}
		if what == "" && state != "" && !strings.HasPrefix(state, "running") {
			what = "all goroutines are asleep, in " + state
		}
		if what == "" && len(list) > 0 {
			what = "in " + list[0].function
		}
	}
	return strings.TrimSuffix("fatal error: "+what+where.text(), ": ")
}

// placeIn returns the text about the line of the program in the first stack of a text, or else about the line of a
// module that it uses. If several panics led to the stack, it is the line of the first one.
func placeIn(text string) string {
	start := firstGoroutine.FindStringIndex(text)
	if start == nil {
		return ""
	}
	stack, _, _ := strings.Cut(text[start[0]:], "\n\n")
	_, list := framesOf(stack)
	var where frame
	for _, f := range list {
		switch {
		case f.function == "panic":
			where = frame{}
		case f.owned() > where.owned():
			where = f
		}
	}
	return where.text()
}

// startsWithStack reports whether first, the first line of a text, is the first line of a stack.
func startsWithStack(first string) bool {
	return strings.HasPrefix(first, "goroutine ") || strings.HasPrefix(first, "runtime stack:")
}

// causes lists functions of the runtime that run only after a certain mistake of the program.
var causes = []struct{ function, what string }{
	{"internal/runtime/maps.fatal", "several goroutines use a map at once"},
	{"internal/sync.fatal", "a lock is misused"},
	{"sync.fatal", "a lock is misused"},
	{"runtime.newstack", "stack overflow"},
	{"runtime.(*mcache).allocLarge", "out of memory"},
	{"runtime.(*mcache).refill", "out of memory"},
	{"runtime.(*mheap).", "out of memory"},
	{"runtime.sysMap", "out of memory"},
	{"runtime.sysReserve", "out of memory"},
	{"runtime.persistentalloc", "out of memory"},
	{"runtime.mapassign", "several goroutines use a map at once"},
	{"runtime.mapaccess", "several goroutines use a map at once"},
}

func causeOf(function string) string {
	for _, c := range causes {
		if strings.HasPrefix(function, c.function) {
			return c.what
		}
	}
	return ""
}

// A frame is a call in a stack: a function and its place in the source.
type frame struct {
	function, place string
	ofModule        bool // the source is in the module cache or a vendor folder
}

// text returns the end of a reason that names f, or "" for no frame.
func (f *frame) text() string {
	if f.function == "" {
		return ""
	}
	return ", at " + f.function + " " + f.place
}

// standard matches the functions of the standard library.
var standard = regexp.MustCompile(`^(archive|bufio|bytes|cmp|compress|container|context|crypto|database|debug|embed|encoding|errors|expvar|flag|fmt|go|hash|html|image|index|internal|io|iter|log|maps|math|mime|net|os|path|plugin|reflect|regexp|runtime|slices|sort|strconv|strings|structs|sync|syscall|testing|text|time|unicode|unique|unsafe|vendor|weak)[./]`)

// owned returns 0 if the function belongs to the standard library, 1 if it belongs to a module that the program uses,
// and 2 if it belongs to the program itself.
func (f *frame) owned() int {
	switch {
	case f.function == "" || standard.MatchString(f.function):
		return 0
	case f.ofModule:
		return 1
	}
	return 2
}

var (
	stackHead = regexp.MustCompile(`^goroutine \d+ [^\[]*\[([^,\]]*)`)
	placeLine = regexp.MustCompile(`^\t(.+):(\d+)( |$)`)
)

// framesOf returns the state of a goroutine, and the calls of its stack, the innermost first.
func framesOf(stack string) (state string, list []frame) {
	for line := range strings.Lines(stack) {
		line = strings.TrimRight(line, "\r\n")
		switch m := placeLine.FindStringSubmatch(line); {
		case m != nil:
			if n := len(list); n > 0 && list[n-1].place == "" {
				list[n-1].place = path.Base(m[1]) + ":" + m[2]
				list[n-1].ofModule = strings.Contains(m[1], "@v") || strings.Contains(m[1], "/vendor/")
			}
		case startsWithStack(line):
			if m := stackHead.FindStringSubmatch(line); m != nil {
				state = m[1]
			}
		case strings.HasSuffix(line, ")") && !strings.HasPrefix(line, "created by "):
			if i := strings.LastIndexByte(line, '('); i > 0 {
				list = append(list, frame{function: line[:i]})
			}
		}
	}
	return state, list
}
