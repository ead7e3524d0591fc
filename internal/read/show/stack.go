package show

import (
	"fmt"
	"strings"

	"github.com/entrace-go/entrace/internal/read/callstack"
)

// IsStack reports whether an attribute with this name has a call stack as its value.
func IsStack(name string) bool {
	name = name[strings.LastIndexByte(name, '.')+1:]
	return name == "stack" || name == "stacktrace"
}

// FoldStack replaces several frames of the runtime at the beginning of a stack by one line.
func FoldStack(text string) string {
	_, frames, before, ok := callstack.Own(text)
	if !ok || frames < 2 {
		return text
	}
	rest := strings.SplitAfterN(text, "\n", before+1)
	what := fmt.Sprintf("… %d frames of the runtime\n", frames)
	if strings.HasPrefix(text, "goroutine ") {
		what = rest[0] + what
	}
	return what + rest[before]
}
