package callstack_test

import (
	"bytes"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"testing"

	"github.com/entrace-go/entrace/internal/read/callstack"
	"github.com/entrace-go/entrace/internal/testkit/expect"
)

func TestParse(t *testing.T) {
	for text, want := range map[string][]callstack.Frame{
		"":                        nil,
		"main.work /src/a b.go:7": {{Function: "main.work", File: "/src/a b.go", Line: 7}},
		"main.f[...] C:\\src\\f.go:12\nmain.main x.go:1\n…": {
			{Function: "main.f[...]", File: "C:/src/f.go", Line: 12}, {Function: "main.main", File: "x.go", Line: 1}, {Function: "…"},
		},
		"0x4711\nmain.main x.go:1": {{Function: "0x4711"}, {Function: "main.main", File: "x.go", Line: 1}},
		"a b:99999999999999999999": {{Function: "a b:99999999999999999999"}},
		"main.(*T).f(0x1, {0x2})\n\t/src/t.go:9 +0x1d\nmain.main()\n\t/src/main.go:3 +0x2": {
			{Function: "main.(*T).f", File: "/src/t.go", Line: 9}, {Function: "main.main", File: "/src/main.go", Line: 3},
		},
	} {
		expect.Slice(t, callstack.Parse(text), want, "%q", text)
	}
}

// TestParseOfRuntime parses this stack as the runtime prints it, and compares it with the runtime's frames.
func TestParseOfRuntime(t *testing.T) {
	text := debug.Stack()
	pcs := make([]uintptr, 32)
	frames := runtime.CallersFrames(pcs[:runtime.Callers(1, pcs)])
	_, text, _ = bytes.Cut(text, []byte("\n")) // goroutine 7 [running]:
	got := callstack.Parse(string(text))
	at := slices.IndexFunc(got, func(f callstack.Frame) bool { return strings.HasSuffix(f.Function, "TestParseOfRuntime") })
	if at < 0 {
		t.Fatalf("got %+v", got)
	}
	f, _ := frames.Next()
	if got[at].Function != f.Function || got[at].File != f.File || got[at].Line <= 0 || got[at].Line >= f.Line {
		t.Errorf("got %+v, want %s in %s before line %d", got[at], f.Function, f.File, f.Line)
	}
}
