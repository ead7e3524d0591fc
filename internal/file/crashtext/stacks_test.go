package crashtext

import (
	"fmt"
	"strings"
	"testing"

	"github.com/entrace-go/entrace/internal/testkit/expect"
)

// TestStacks reads the stacks of goroutines with labels from a crash text.
func TestStacks(t *testing.T) {
	const (
		trace  = "4bf92f3577b34da6a3ce929d0e0e4736"
		labels = ` labels:{"span_id": "00f067aa0ba902b7", "trace_id": "` + trace + `"}]:`
	)
	text := "fatal error: all goroutines are asleep\n\ngoroutine 4 gp=0xc0 m=0 mp=0x5 [chan receive, 2 minutes" + labels + `
runtime.gopark(0x1, 0x2)
	/go/runtime/proc.go:461 +0xce
internal/sync.(*Mutex).Lock(...)
	/go/internal/sync/mutex.go:63
example.com/shop.(*Cart[...]).Lock(0xc000, {0x1, 0x2})
	/src/cart.go:41 +0x1d
main.main.func1()
	/src/main.go:12 +0x33
created by main.main in goroutine 1
	/src/main.go:11 +0x5a

goroutine 5 [chan receive` + labels + `
main.wait()
	/src/main.go:20 +0x1

goroutine 6 [chan receive` + labels + `
main.wait()
	/src/main.go:20 +0x1

goroutine 7 [running]:
main.other()
	/src/main.go:30 +0x1

goroutine 8 [running labels:{"span_id": "x"}]:
main.other()
	/src/main.go:30 +0x1
`
	got := Stacks(text)
	want := []Stack{
		{trace, "00f067aa0ba902b7", "example.com/shop.(*Cart[...]).Lock", "runtime.gopark /go/runtime/proc.go:461\ninternal/sync.(*Mutex).Lock /go/internal/sync/mutex.go:63\nexample.com/shop.(*Cart[...]).Lock /src/cart.go:41\nmain.main.func1 /src/main.go:12", 1},
		{trace, "00f067aa0ba902b7", "main.wait", "main.wait /src/main.go:20", 2},
	}
	expect.Equal(t, fmt.Sprint(got), fmt.Sprint(want), "the stacks")
	many := strings.Builder{}
	for i := range maxStacks + 10 {
		fmt.Fprintf(&many, "goroutine %d [running%s\nmain.f%d()\n\t/a.go:%d\n\n", i, labels, i, i)
	}
	expect.Equal(t, len(Stacks(many.String())), maxStacks, "stacks")
	for _, odd := range []string{"", "goroutine 1 [x" + labels, "goroutine 1 [x" + labels + "\nf", "goroutine 1 [x" + labels + "\n(\n\t\n(\n\t", strings.Repeat("\n", 100)} {
		Stacks(odd)
	}
}
