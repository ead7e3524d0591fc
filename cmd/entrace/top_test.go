package main

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/entrace-go/entrace/format"
	"github.com/entrace-go/entrace/internal/otel"
	"github.com/entrace-go/entrace/internal/testkit/expect"
	"github.com/entrace-go/entrace/internal/testkit/tracetest"
)

// TestTopSaysWhatGrows checks that top and explain report growing values of the runtime, and escape characters
// that act on a terminal.
func TestTopSaysWhatGrows(t *testing.T) {
	x := tracetest.New(t, format.V2, format.ET, format.Root())
	for i := range uint64(12) {
		x.Add(&format.TraceEntry{Metadata: format.Metadata{Name: "runtime.metrics", Target: "runtime/metrics"}, Attributes: tracetest.Attributes(format.AttrTime, 1e18+i*1e9, "/sched/goroutines:goroutines", 20+2000*i)})
	}
	for i := range 2 {
		x.Add(&format.TraceEntry{
			Message: format.Some("main.\x1bwait"), Metadata: format.Metadata{Name: "goroutines", Target: "runtime/pprof"},
			Attributes: tracetest.Attributes(format.AttrTime, uint64(1e18+12e9), "count", uint64(9*(i+1)), "stack", strings.Repeat("x", i)),
		})
	}
	name := filepath.Join(t.TempDir(), "leak.et")
	x.Save(name)
	want := "\nThe Go runtime\ngoroutines: 20 → 22020 in 11s\n18 goroutines in main.\\x1bwait, for 0 spans, 0 of which ended\n"
	for _, command := range []string{"top", "explain"} {
		expect.Has(t, fine(t, nil, command, name), want, "%s prints", command)
		printed := fine(t, nil, command, "--json", name)
		expect.Has(t, printed, `"of": "goroutines"`, "%s --json prints", command)
		expect.Has(t, printed, `"count": 18`, "%s --json prints", command)
	}
}

// TestExplainSaysThatADifferenceGrows checks that explain says, as text and as JSON, that calls become slower from the
// first request on.
func TestExplainSaysThatADifferenceGrows(t *testing.T) {
	x := tracetest.New(t, format.V2, format.ET, format.Root())
	for i := range 600 {
		for part, name := range []string{"GET /", "SELECT", "render"} {
			s := otel.Span{Name: name, TraceID: [16]byte{1, byte(i), byte(i >> 8)}, SpanID: [8]byte{byte(part + 1), byte(i), byte(i >> 8)}, Start: 1e18 + int64(i)*1e8, Duration: 1e6 + int64(i*37%101)*1e3, Ended: true}
			switch part {
			case 0:
				s.Duration = 9e7
			case 1:
				s.Duration += int64(i) * 1e5
			}
			if part > 0 {
				s.Parent = [8]byte{1, byte(i), byte(i >> 8)}
			}
			x.Add(tracetest.Of(&s, otel.Where{}))
		}
	}
	name := filepath.Join(t.TempDir(), "slower.et")
	x.Save(name)
	expect.Has(t, fine(t, nil, "explain", name), "\nthe difference grows from the first request on, so it may have begun before the recording\n", "explain prints")
	expect.Has(t, fine(t, nil, "explain", "--json", name), `"grows": true`, "explain --json prints")
}

// TestWhoWaitsForALock checks what explain says about a dump of goroutines and about the text of a crash: where
// goroutines wait for a lock, and where the other goroutines are.
func TestWhoWaitsForALock(t *testing.T) {
	const (
		locked = "sync.runtime_SemacquireMutex /go/src/runtime/sema.go:95\nsync.(*Mutex).Lock /go/src/sync/mutex.go:46\nmain.book /src/main.go:109"
		other  = "runtime.gopark /go/src/runtime/proc.go:462\nruntime.chanrecv1 /go/src/runtime/chan.go:506\nmain.refund /src/main.go:100"
		crash  = "SIGQUIT: quit\n\ngoroutine 7 gp=0x1 [sync.Mutex.Lock]:\nsync.(*Mutex).Lock(...)\n\t/go/src/sync/mutex.go:46\nmain.book(0x1)\n\t/src/main.go:109 +0x2\n\n" +
			"goroutine 8 gp=0x2 [chan receive]:\nmain.refund(0x1)\n\t/src/main.go:100 +0x2\ncreated by main.main in goroutine 1\n\t/src/main.go:9 +0x1\n\n" +
			"goroutine 9 gp=0x3 [GC worker (idle)]:\nruntime.gopark(0x1)\n\t/go/src/runtime/proc.go:462 +0x1\n"
	)
	open := &otel.Span{Name: "GET /b", TraceID: [16]byte{1}, SpanID: [8]byte{1}, Start: 1e18}
	time := format.Attribute{Name: format.AttrTime, Value: format.U64Value(1e18 + 1e9)}
	for name, want := range map[string]string{
		"a dump":     "waiting for a lock: 2 in main.book main.go:109; the trace does not record which goroutine holds it; these do not wait: 2 in main.refund main.go:100",
		"a deadlock": "all 4 goroutines of open spans wait for a lock: 2 in main.book main.go:109, 2 in main.refund main.go:120; no goroutine that could hold it is running, so this is perhaps a deadlock",
		"locks":      "waiting for a lock: 2 in main.book main.go:109; no other goroutine of a span that is as old does anything else",
		"a crash":    "waiting for a lock: 1 in main.book main.go:109; the trace does not record which goroutine holds it; these do not wait: 1 in main.refund main.go:100",
	} {
		x := tracetest.New(t, format.V2, format.ET, format.Root(), tracetest.Of(open, otel.Where{}))
		if name == "a crash" {
			x.Add(&format.TraceEntry{Message: format.Some(crash), Metadata: format.Metadata{Name: "crash", Level: format.LevelError}, Attributes: []format.Attribute{time}})
		}
		for i, stack := range []string{locked, other} {
			if name == "a deadlock" && i > 0 { // the second one waits for the lock in another place
				stack = strings.Replace(locked, "main.book /src/main.go:109", "main.refund /src/main.go:120", 1)
			}
			if name == "a crash" || name == "locks" && i > 0 {
				continue
			}
			x.Add(&format.TraceEntry{Parent: 1, Metadata: format.Metadata{Name: "goroutines", Target: "runtime/pprof"}, Attributes: []format.Attribute{
				time, {Name: "count", Value: format.U64Value(2)}, {Name: "stack", Value: format.StringValue(stack)},
			}})
		}
		file := filepath.Join(t.TempDir(), "hang.et")
		x.Save(file)
		expect.Has(t, strings.ReplaceAll(fine(t, nil, "explain", file), "\n", " "), want, "%s: it prints", name)
	}
}
