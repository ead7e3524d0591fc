package main

import (
	"strings"
	"testing"

	"github.com/entrace-go/entrace/format"
	"github.com/entrace-go/entrace/internal/mapping"
	"github.com/entrace-go/entrace/recorder"
)

const waiting = "runtime.gopark /go/src/runtime/proc.go:462\nruntime.goparkunlock /go/src/runtime/proc.go:468\nruntime.semacquire1 /go/src/runtime/sema.go:192\n" +
	"internal/sync.runtime_SemacquireMutex /go/src/runtime/sema.go:95\ninternal/sync.(*Mutex).lockSlow /go/src/internal/sync/mutex.go:149\n" +
	"main.(*server).lockA /home/ada/orders/main.go:121\nmain.(*server).transfer /home/ada/orders/main.go:133\nnet/http.HandlerFunc.ServeHTTP /go/src/net/http/server.go:2322"

const panicked = "goroutine 36 [running]:\ngo.opentelemetry.io/otel/sdk/trace.recordStackTrace()\n\t/mod/otel/sdk/trace/span.go:512 +0x2a\n" +
	"go.opentelemetry.io/otel/sdk/trace.(*recordingSpan).End(0xc0001)\n\t/mod/otel/sdk/trace/span.go:436 +0x1\npanic({0x6d, 0x7f})\n\t/go/src/runtime/panic.go:783 +0x132\n" +
	"main.compute(0x1, {0x2, 0x3})\n\t/home/ada/orders/main.go:77 +0x2c\n"

// TestStackBeginsWithTheProgram: what the runtime does is folded away, and the first frame of the
// program is found.
func TestStackBeginsWithTheProgram(t *testing.T) {
	for _, c := range []struct{ name, stack, said, place, first string }{
		{"a lock", waiting, "", "main.(*server).lockA main.go:121", "… 5 frames of the runtime"},
		{"whose function is said", waiting, "main.(*server).lockA", "main.go:121", "… 5 frames of the runtime"},
		{"a panic", panicked, "", "main.compute main.go:77", "goroutine 36 [running]:"},
		{"the runtime alone", "runtime.gopark /go/src/runtime/proc.go:462\nruntime.main /go/src/runtime/proc.go:283", "", "", "runtime.gopark /go/src/runtime/proc.go:462"},
		{"the program first", "main.main C:\\orders\\main.go:9\nruntime.main proc.go:283", "", "main.main main.go:9", "main.main C:\\orders\\main.go:9"},
		{"no stack", "first line\nsecond line", "", "", "first line"},
		{"nothing", "", "", "", ""},
	} {
		if got := placeIn(c.stack, c.said); got != c.place {
			t.Errorf("%s: the place is %q, want %q", c.name, got, c.place)
		}
		folded := foldStack(c.stack)
		if first, _, _ := strings.Cut(folded, "\n"); first != c.first {
			t.Errorf("%s begins with %q, want %q", c.name, first, c.first)
		}
		if f, _, _, ok := ownFrame(c.stack); ok && (!strings.Contains(folded, f.function) || strings.Contains(folded, "gopark")) {
			t.Errorf("%s is folded to\n%s", c.name, folded)
		}
	}
}

// hanging records a request that waits for a lock, and two that are over.
func hanging(t *testing.T, name string) {
	t.Helper()
	rec, err := recorder.Create(name, nil)
	must(t, err)
	at := func(e *format.TraceEntry, start int) *format.TraceEntry {
		e.Attributes = append(e.Attributes, format.Attribute{Name: format.AttrTime, Value: format.U64Value(uint64(start) * 1_000_000)})
		return e
	}
	add := func(e *format.TraceEntry) uint32 {
		id, err := rec.Append(e)
		must(t, err)
		return id
	}
	span := func(parent uint32, name, id string, start, took int) uint32 {
		e := at(named(name), start)
		e.Parent = parent
		e.Attributes = append(e.Attributes, format.Attribute{Name: format.AttrSpanID, Value: format.StringValue("000000000000000" + id)})
		if took >= 0 {
			e.Attributes = append(e.Attributes, format.Attribute{Name: format.AttrDuration, Value: format.U64Value(uint64(took) * 1_000_000)})
		}
		return add(e)
	}
	own := add(at(&format.TraceEntry{Metadata: format.Metadata{Name: mapping.NameTrace}, Attributes: []format.Attribute{
		{Name: "trigger", Value: format.StringValue("watchdog")}, {Name: "reason", Value: format.StringValue("span GET /b is open for 2s")},
	}}, 9000))
	add(at(&format.TraceEntry{Parent: own, Metadata: format.Metadata{Name: "runtime.metrics"}}, 1))
	resource := add(&format.TraceEntry{Message: format.Some("orders"), Metadata: format.Metadata{Name: format.NameResource}})
	slow := span(resource, "GET /a", "1", 1000, 400)
	span(span(slow, "price", "2", 1010, 380), "tax service", "3", 1020, 350)
	hang := span(resource, "GET /b", "4", 2000, -1)
	span(hang, "transfer b->a", "5", 2001, -1)
	stack := at(&format.TraceEntry{Parent: hang, Message: format.Some("main.(*server).lockA"), Metadata: format.Metadata{Name: "goroutines", Level: format.LevelDebug}}, 4000)
	stack.Attributes = append(stack.Attributes, format.Attribute{Name: "count", Value: format.U64Value(1)}, format.Attribute{Name: "stack", Value: format.StringValue(waiting)})
	add(stack)
	must(t, rec.Close(t.Context()))
}

// TestTopOfAHang: the first lines say why the file is there and where the request hangs; a slow
// request is one line, with its slowest part.
func TestTopOfAHang(t *testing.T) {
	t.Chdir(t.TempDir())
	hanging(t, "hang.et")
	out := fine(t, nil, "top", "hang.et", "--time", "utc")
	at := -1
	for _, want := range []string{
		"hang.et snapshot of a running process (watchdog: span GET /b is open for 2s): 5 spans", ", 3s from 1970-01-01T00:00:01Z\n",
		"Never ended\n", "GET /b not ended, ≥ 7s\n", "    in main.(*server).lockA main.go:121\n", "transfer b->a",
		"Slowest requests\n", "GET /a", "    350ms of it in tax service\n", "Most time of their own",
	} {
		i := strings.Index(out, want)
		if i <= at {
			t.Errorf("%q is not there, or not behind what is to come before it:\n%s", want, out)
		}
		at = max(at, i)
	}
	slowest, _, _ := strings.Cut(out[strings.Index(out, "Slowest requests"):], "Most time")
	if strings.Contains(slowest, "price") || strings.Contains(out, "Services") {
		t.Errorf("a request comes twice, or a service without rows is there:\n%s", out)
	}
	if tree := fine(t, nil, "tree", "hang.et"); !strings.Contains(tree, ", 3s\n") {
		t.Errorf("tree has another length:\n%s", tree)
	}
}

// TestTreeShowsWhereAGoroutineWaits: the place in the program is on the line of the record, and on a
// terminal its stack begins there.
func TestTreeShowsWhereAGoroutineWaits(t *testing.T) {
	t.Chdir(t.TempDir())
	hanging(t, "app.et")
	narrow := plainTree(t, 100, treeOptions{})
	for _, want := range []string{
		"DEBUG goroutines main.(*server).lockA main.go:121 count=1\n", "… 5 frames of the runtime\n", "main.(*server).lockA /home/ada/orders/main.go:121\n",
	} {
		if !strings.Contains(narrow, want) {
			t.Errorf("there is no %q in\n%s", want, narrow)
		}
	}
	if full := plainTree(t, 100, treeOptions{full: true}); !strings.Contains(full, "runtime.gopark /go/src/runtime/proc.go:462") {
		t.Errorf("--full has not all of the stack:\n%s", full)
	}
}
