package gotrace_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"io"
	"iter"
	"runtime"
	"runtime/pprof"
	"runtime/trace"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/entrace-go/entrace/convert/gotrace"
	"github.com/entrace-go/entrace/convert/otlp"
	"github.com/entrace-go/entrace/format"
	"github.com/entrace-go/entrace/internal/core/execbatch"
	"github.com/entrace-go/entrace/internal/read/callstack"
	"github.com/entrace-go/entrace/internal/read/input"
	"github.com/entrace-go/entrace/internal/testkit/converttest"
	"github.com/entrace-go/entrace/internal/testkit/expect"
	"github.com/entrace-go/entrace/internal/testkit/tracetest"
	"github.com/entrace-go/entrace/view"
)

var toOTLP = converttest.Format{
	Decode: gotrace.Decode,
	Encode: func(ctx context.Context, w io.Writer, v *view.View) error { return otlp.Encode(ctx, w, v, nil) },
}

// paths returns the path of each span: the names of its ancestors and its own name. The given attributes follow, if
// it has them.
func paths(t *testing.T, in []byte, attributes ...string) (all []string) {
	t.Helper()
	iet, err := toOTLP.Back(t.Context(), t, bytes.NewReader(in), format.V2)
	converttest.Must(t, err)
	v := converttest.Read(t, iet)
	for r := range v.Rows() {
		e, err := v.Entry(r)
		converttest.Must(t, err)
		path := e.Metadata.Name
		if text := e.Message.Value; text != "" {
			path = text
		}
		for _, a := range e.Attributes {
			if slices.Contains(attributes, a.Name) {
				path += " " + a.Name + "=" + a.Value.Text()
			}
		}
		for up := v.Parent(r); up > 0; up = v.Parent(up) {
			above, err := v.Entry(up)
			converttest.Must(t, err)
			path = above.Metadata.Name + "/" + path
		}
		all = append(all, path)
	}
	return all
}

func has(t *testing.T, all []string, want string) {
	t.Helper()
	if !slices.ContainsFunc(all, func(s string) bool { return strings.HasSuffix(s, want) }) {
		t.Errorf("there is no %q in\n%s", want, strings.Join(all, "\n"))
	}
}

// TestDecodeVersions decodes traces that Go 1.24 to 1.27 wrote.
func TestDecodeVersions(t *testing.T) {
	for _, version := range []string{"1.24", "1.25", "1.26", "1.27"} {
		in := tracetest.ReadFile(t, "../../internal/read/gotrace/testdata/go"+version+".trace")
		if !gotrace.Is(in) {
			t.Errorf("Go %s: it is not one", version)
		}
		all := paths(t, in, "wait.reason", "cut")
		has(t, all, "/request/reindex")
		has(t, all, "/main.main/mutex wait.reason=sync")
		has(t, all, "/main.span/sleep wait.reason=sleep")
		has(t, all, "/stop-the-world (start trace)")
		if i := slices.IndexFunc(all, func(s string) bool { return strings.Contains(s, "/runtime.bgsweep") }); i >= 0 {
			t.Errorf("it has a goroutine of the runtime: %s", all[i])
		}
		has(t, paths(t, in, "span_id"), "/request/reindex span_id=0000000000000002")
	}
}

func short() {}

// TestDecodeOwn decodes a trace of this process.
func TestDecodeOwn(t *testing.T) {
	var b bytes.Buffer
	converttest.Must(t, trace.Start(&b))
	ctx, order := trace.NewTask(t.Context(), "order")
	inner, pay := trace.NewTask(ctx, "pay")
	trace.WithRegion(inner, "card", func() {
		trace.Log(inner, "bank", "it takes long")
		trace.WithRegion(inner, "wait", func() { time.Sleep(5 * time.Millisecond) })
	})
	pay.End()
	order.End()
	late, _ := trace.NewTask(inner, "late") // the task of inner has ended
	trace.WithRegion(inner, "ship", func() { trace.Log(late, "", "sent") })
	_, _ = trace.NewTask(t.Context(), "hangs")
	for range 100 {
		go short()
	}
	var helpers sync.WaitGroup
	helpers.Go(func() { time.Sleep(5 * time.Millisecond) })
	next, stop := iter.Pull(func(func(int) bool) { time.Sleep(5 * time.Millisecond) })
	next()
	stop()
	helpers.Wait()
	runtime.GC()
	trace.Stop()
	all := paths(t, b.Bytes(), "category", "cut", "function")
	has(t, all, "/order/pay/card/wait")
	has(t, all, "/order/pay/card/it takes long category=bank")
	has(t, all, "/order/pay/late")
	has(t, all, "/order/pay/ship/sent")
	has(t, all, "/hangs")
	has(t, all, "/sleep")
	has(t, all, "/main.main/chan cut=both") // package testing waits for the test during all of the trace
	has(t, all, "/goroutines that lived for less than a millisecond function=github.com/entrace-go/entrace/convert/gotrace_test.short")
	has(t, all, "/GC concurrent mark phase")
	has(t, all, "/sync.(*WaitGroup).Go.func1/sleep")
	has(t, all, "/runtime.corostart/sleep")

	half, err := toOTLP.Back(t.Context(), t, bytes.NewReader(b.Bytes()[:b.Len()-9]), format.V2)
	if e, ok := errors.AsType[*input.Error](err); !ok || e.Offset == 0 || len(half) == 0 {
		t.Errorf("a trace that is cut: %v", err)
	}
	expect.Says(t, expect.Err(toOTLP.Text(t, "go 1.99 trace\x00\x00\x00")), "1.99", "another version")
	if gotrace.Is([]byte("go 1.26")) || gotrace.Is(nil) {
		t.Error("a part of a header is one")
	}
}

// stepClock changes the wall clock in all generations of a trace except the first. A generation has it in an event
// 51, which follows the event 50 with the frequency.
func stepClock(t *testing.T, b []byte, seconds int64) {
	t.Helper()
	moved := 0
	for at := execbatch.HeaderSize; at < len(b); {
		size, _, ends, err := execbatch.Next(b[at:])
		converttest.Must(t, err)
		x := b[at : at+size]
		at += size
		skip := func(numbers int) {
			for range numbers {
				_, n := binary.Uvarint(x)
				x = x[n:]
			}
		}
		if ends {
			continue
		}
		x = x[1:]
		skip(4)
		if len(x) == 0 || x[0] != 50 {
			continue
		}
		x = x[2:]
		skip(1)
		if x[0] != 51 {
			t.Fatal("no clock is behind the frequency")
		}
		x = x[1:]
		skip(2)
		moved++
		if moved > 1 {
			wall, n := binary.Uvarint(x)
			if binary.PutUvarint(x, uint64(int64(wall)+seconds)) != n {
				t.Fatal("the time has another length")
			}
		}
	}
	if moved < 2 {
		t.Fatal("there is one generation alone")
	}
}

// TestClockSteps sets the wall clock within a trace. The duration of a span that is open at this time must not
// change.
func TestClockSteps(t *testing.T) {
	var b bytes.Buffer
	converttest.Must(t, trace.Start(&b))
	ctx, task := trace.NewTask(t.Context(), "long")
	trace.WithRegion(ctx, "region", func() { time.Sleep(1300 * time.Millisecond) })
	task.End()
	trace.Stop()
	for _, seconds := range []int64{-3600, 3600} {
		in := bytes.Clone(b.Bytes())
		stepClock(t, in, seconds)
		iet, err := toOTLP.Back(t.Context(), t, bytes.NewReader(in), format.V2)
		converttest.Must(t, err)
		v, found := converttest.Read(t, iet), 0
		for r := range v.Rows() {
			if name := v.Name(r); name == "long" || name == "region" || name == "sleep" {
				found++
				if d, ended := v.Duration(r); !ended || d < 1300*time.Millisecond || d > 5*time.Second {
					t.Errorf("%s takes %v where the clock steps by %d s", name, d, seconds)
				}
			}
		}
		if found < 3 {
			t.Errorf("of three only %d are there", found)
		}
	}
}

//go:noinline
func compute(until func() bool) (n uint64) {
	for !until() {
		for i := range uint64(1_000_000) {
			n += i * i
		}
	}
	return n
}

// TestSamples decodes a trace that was recorded during a CPU profile. Each sample must have its functions, and be
// below the region or task that began last on its goroutine.
func TestSamples(t *testing.T) {
	for long := 300 * time.Millisecond; ; long *= 2 { // on a busy machine there may be no sample for a while
		var b bytes.Buffer
		converttest.Must(t, pprof.StartCPUProfile(io.Discard))
		converttest.Must(t, trace.Start(&b))
		busy := func() {
			begun := time.Now()
			compute(func() bool { return time.Since(begun) > long })
		}
		ctx, task := trace.NewTask(t.Context(), "order")
		trace.WithRegion(ctx, "pay", busy)
		busy()
		task.End()
		busy()
		trace.Stop()
		pprof.StopCPUProfile()

		iet, err := toOTLP.Back(t.Context(), t, &b, format.V2)
		converttest.Must(t, err)
		v := converttest.Read(t, iet)
		times := make(map[string]int64)
		for s, err := range callstack.CPU(t.Context(), v) {
			converttest.Must(t, err)
			if slices.ContainsFunc(s.Stack, func(f callstack.Frame) bool { return strings.HasSuffix(f.Function, "gotrace_test.compute") }) {
				parent := v.Parent(s.Row)
				times[v.Name(parent)] += s.Nano
				if got, want := v.Service(s.Row), v.Service(parent); got != want {
					t.Errorf("a sample below %q is of the service %q, not of %q", v.Name(parent), got, want)
				}
			}
		}
		least := int64(long) / 4
		if own := times["testing.tRunner"]; times["pay"] > least && times["order"] > least && own > least {
			if len(times) != 3 {
				t.Errorf("got %v", times)
			}
			return
		}
		if long > 5*time.Second {
			t.Fatalf("got %v", times)
		}
	}
}

func FuzzDecode(f *testing.F) {
	toOTLP.FuzzDecode(f, "../../../internal/read/gotrace/testdata/go1.24.trace", "../../../internal/read/gotrace/testdata/go1.27.trace")
}
