package show

import (
	"strings"
	"testing"

	"github.com/entrace-go/entrace/internal/read/callstack"
	"github.com/entrace-go/entrace/internal/testkit/expect"
)

// TestStackBeginsWithTheProgram checks that frames of the runtime are folded, and that the first frame of the
// program itself is found.
func TestStackBeginsWithTheProgram(t *testing.T) {
	const waiting = "runtime.gopark /go/src/runtime/proc.go:462\nruntime.goparkunlock /go/src/runtime/proc.go:468\nruntime.semacquire1 /go/src/runtime/sema.go:192\n" +
		"internal/sync.runtime_SemacquireMutex /go/src/runtime/sema.go:95\ninternal/sync.(*Mutex).lockSlow /go/src/internal/sync/mutex.go:149\n" +
		"main.(*server).lockA /home/ada/orders/main.go:121\nmain.(*server).transfer /home/ada/orders/main.go:133"
	const panicked = "goroutine 36 [running]:\ngo.opentelemetry.io/otel/sdk/trace.recordStackTrace()\n\t/mod/otel/sdk/trace/span.go:512 +0x2a\n" +
		"go.opentelemetry.io/otel/sdk/trace.(*recordingSpan).End(0xc0001)\n\t/mod/otel/sdk/trace/span.go:436 +0x1\npanic({0x6d, 0x7f})\n\t/go/src/runtime/panic.go:783 +0x132\n" +
		"main.compute(0x1, {0x2, 0x3})\n\t/home/ada/orders/main.go:77 +0x2c\n"
	for _, c := range []struct{ name, stack, said, place, first string }{
		{"a lock", waiting, "", "main.(*server).lockA main.go:121", "… 5 frames of the runtime"},
		{"whose function is said", waiting, "main.(*server).lockA", "main.go:121", "… 5 frames of the runtime"},
		{"a panic", panicked, "", "main.compute main.go:77", "goroutine 36 [running]:"},
		{"the runtime alone", "runtime.gopark /go/src/runtime/proc.go:462\nruntime.main /go/src/runtime/proc.go:283", "", "", "runtime.gopark /go/src/runtime/proc.go:462"},
		{"the program first", "main.main C:\\orders\\main.go:9\nruntime.main proc.go:283", "", "main.main main.go:9", "main.main C:\\orders\\main.go:9"},
		{"no stack", "first line\nsecond line", "", "", "first line"},
		{"nothing", "", "", "", ""},
	} {
		expect.Equal(t, callstack.Place(c.stack, c.said), c.place, "%s: the place", c.name)
		folded := FoldStack(c.stack)
		if first, _, _ := strings.Cut(folded, "\n"); first != c.first {
			t.Errorf("%s begins with %q, want %q", c.name, first, c.first)
		}
		if f, _, _, ok := callstack.Own(c.stack); ok && (!strings.Contains(folded, f.Function) || strings.Contains(folded, "gopark")) {
			t.Errorf("%s is folded to\n%s", c.name, folded)
		}
	}
}
