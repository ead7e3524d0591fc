package crashtext

import (
	"testing"

	"github.com/entrace-go/entrace/internal/testkit/expect"
)

func TestTextReason(t *testing.T) {
	for text, want := range map[string]string{
		"panic: a [recovered, repanicked]\n\ngoroutine 1 [running]:": "panic: a",
		"":                             "",
		"panic: boom\n\ngoroutine 1 …": "panic: boom",
		"panic: boom\n\tpanic: again\n\ngoroutine 1 [running]:\nmain.main.func1()\n\t/shop/main.go:5 +0x1\npanic({0x1?, 0x2?})\n\t/go/src/runtime/panic.go:770 +0x1\nsync.(*Once).Do(0x1)\n\t/go/src/sync/once.go:7\nmain.work(...)\n\t/shop/main.go:9":              "panic: boom, at main.work main.go:9",
		"fatal error: a lock is misused, at main.main main.go:72\n\ngoroutine 1 [running]:\nsync.fatal({0x4b34a5?, 0x4a60a0?})\n\t/go/src/runtime/panic.go:1161 +0x18\nmain.main()\n\t/shop/main.go:72 +0x205":                                                       "fatal error: a lock is misused, at main.main main.go:72",
		"panic: negative count\n\ngoroutine 1 [running]:\nstrings.Repeat({0x1?, 0x2?}, 0x3)\n\t/go/src/strings/strings.go:628 +0x5\nexample.com/text.Fill(0x1)\n\t/go/pkg/mod/example.com/text@v1.2.0/fill.go:7 +0x1\nshop/cart.label(...)\n\t/shop/cart/label.go:9": "panic: negative count, at shop/cart.label label.go:9",
		"panic: negative count\n\ngoroutine 1 [running]:\nstrings.Repeat({0x1?, 0x2?}, 0x3)\n\tstrings/strings.go:628 +0x5\nexample.com/text.Fill(0x1)\n\texample.com/text@v1.2.0/fill.go:7 +0x1\ncreated by shop/cart.start in goroutine 3\n\tshop/cart/label.go:9": "panic: negative count, at example.com/text.Fill fill.go:7",
		"log.Fatal: no disk\n\ngoroutine 1 [running]:\nmain.main()\n\t/shop/main.go:3 +0x1":         "log.Fatal: no disk, at main.main main.go:3",
		"SIGABRT: abort\nPC=0x1 m=0\n\ngoroutine 1 [running]:\nmain.main()\n\t/shop/main.go:3 +0x1": "SIGABRT: abort",
		"SIGABRT: abort": "SIGABRT: abort",
		"goroutine 7 [running]:\ninternal/runtime/maps.fatal({0x4b0ad2?, 0x0?})\n\t/usr/local/go/src/runtime/panic.go:1181 +0x18\nmain.work()\n\t/tmp/cr/main.go:13 +0x59": "fatal error: several goroutines use a map at once, at main.work main.go:13",
		"goroutine 7 [running]:": "fatal error",
		"runtime stack:\nruntime.throw({0x4af294?, 0x200000008?})\n\t/go/src/runtime/panic.go:1229 +0x48 fp=0x7f\nruntime.newstack()\n\t/go/src/runtime/stack.go:1207 +0x5fd\n\ngoroutine 1 gp=0x1 m=0 mp=0x5 [running]:\nmain.(*tree).deep(...)\n\t/shop/tree.go:30":                                              "fatal error: stack overflow, at main.(*tree).deep tree.go:30",
		"goroutine 1 [running]:\nsync.fatal({0x4b34a5?, 0x4a60a0?})\n\t/go/src/runtime/panic.go:1161 +0x18\nsync.(*RWMutex).RUnlock(...)\n\t/go/src/sync/rwmutex.go:122\nmain.main()\n\t/shop/main.go:72 +0x205":                                                                                                   "fatal error: a lock is misused, at main.main main.go:72",
		"goroutine 1 gp=0x2 m=0 [running]:\nruntime.throw({0x4aede7?})\n\t/go/src/runtime/panic.go:1229 +0x48\nruntime.(*mcache).allocLarge(0x4b71a0?)\n\t/go/src/runtime/mcache.go:259 +0x18d\nruntime.makeslice()\n\t/go/src/runtime/slice.go:117\nexample.com/shop/cart.Load(0x1)\n\t/shop/cart/cart.go:9 +0x1": "fatal error: out of memory, at example.com/shop/cart.Load cart.go:9",
		"goroutine 1 [sync.Mutex.Lock]:\nsync.(*Mutex).Lock(...)\n\t/go/src/sync/mutex.go:46\nmain.main()\n\t/shop/main.go:79 +0x29d":                                                                                                                                                                              "fatal error: all goroutines are asleep, in sync.Mutex.Lock, at main.main main.go:79",
	} {
		expect.Equal(t, Reason(text), want, "of %q the reason", text)
	}
}

func TestSpanOfText(t *testing.T) {
	const (
		trace, span = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"
		labels      = ` labels:{"span_id": "` + span + `", "trace_id": "` + trace + `"}]:`
		both        = trace + " " + span
	)
	for text, want := range map[string]string{
		"panic: boom\n\ngoroutine 4 [running" + labels + "\nmain.f()":                        both,
		"panic: boom\n\ngoroutine 4 gp=0xc0 m=0 mp=0x5 [running, locked to thread" + labels:  both,
		"fatal error: concurrent map writes\n\ngoroutine 4 [running" + labels:                both,
		"goroutine 4 [running" + labels + "\ninternal/runtime/maps.fatal(…)":                 both,
		"panic: boom\n\ngoroutine 4 [running]:\n\ngoroutine 5 [running" + labels:             " ",
		"panic: boom\n\tgoroutine 3 [running" + labels + "\n\ngoroutine 4 [running]:":        " ",
		"SIGABRT: abort\n\ngoroutine 4 [running" + labels:                                    " ",
		"fatal error: all goroutines are asleep\n\ngoroutine 4 [chan receive" + labels:       " ",
		`panic: boom` + "\n\n" + `goroutine 4 [running labels:{"a": "{\"span_id\": \"00"}]:`: " ",
	} {
		if trace, span := Span(text); trace+" "+span != want {
			t.Errorf("of %q the span is %q, want %q", text, trace+" "+span, want)
		}
	}
}
