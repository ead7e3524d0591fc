//go:build unix

package entrace_test

import (
	"context"
	"fmt"
	stdlog "log"
	"log/slog"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/entrace-go/entrace/internal/testkit/expect"
	"github.com/entrace-go/entrace/internal/testkit/hosttest"
	"github.com/entrace-go/entrace/internal/testkit/tracetest"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/log"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"

	"github.com/entrace-go/entrace"
	"github.com/entrace-go/entrace/convert"
	"github.com/entrace-go/entrace/exporter"
	"github.com/entrace-go/entrace/format"
	"github.com/entrace-go/entrace/internal/core/mapping"
	"github.com/entrace-go/entrace/recorder"
	"github.com/entrace-go/entrace/view"
)

func init() { program = child }

// child records to app.et, and then ends the process in the way that end names, for example by a
// panic.
func child(end string) {
	if strings.HasPrefix(end, "canary") {
		recordCanaries(end)
	}
	var o []entrace.Option
	switch end {
	case "signal":
		o = append(o, entrace.WithSignals())
	case "panic without text", "log.Fatal without text":
		o = append(o, entrace.WithoutCrashText())
	case "signals":
		o = append(o, entrace.WithSignals(syscall.SIGTERM), entrace.WithTracerProviderOptions(sdktrace.WithSpanProcessor(hung{})))
	}
	p, err := entrace.Setup(context.Background(), append(o, entrace.WithSlogDefault(), exporter.WithPath("app.et"))...)
	if err != nil {
		panic(err)
	}
	ctx, span := p.TracerProvider().Tracer("t").Start(context.Background(), "request")
	slog.InfoContext(ctx, "begun")
	switch end {
	case "panic", "panic without text":
		panic("on purpose")
	case "panic runs Shutdown":
		defer p.Shutdown(context.Background())
		panic("on purpose")
	case "panic runs a function with Shutdown":
		defer func() { _ = p.Shutdown(context.Background()) }()
		panic("on purpose")
	case "Goexit runs Shutdown":
		defer panic("on purpose")
		defer p.Shutdown(context.Background())
		runtime.Goexit()
	case "log.Fatal", "log.Fatal without text":
		stdlog.Fatal("no database, password=hunter2")
	case "recovered":
		func() {
			defer func() { _ = recover() }()
			defer p.Shutdown(context.Background())
			panic("on purpose")
		}()
		slog.InfoContext(ctx, "it goes on")
		span.End()
		fmt.Println("Shutdown:", p.Shutdown(context.Background()))
		os.Exit(0)
	case "fatal":
		m := map[int]int{}
		go func() {
			for {
				m[0]++
			}
		}()
		for {
			m[0]++
		}
	case "signal":
		span.End()
		_ = syscall.Kill(os.Getpid(), syscall.SIGTERM)
		time.Sleep(time.Minute)
	case "signals":
		go p.Shutdown(context.Background()) // Shutdown does not return
		time.Sleep(100 * time.Millisecond)
		_ = syscall.Kill(os.Getpid(), syscall.SIGTERM)
		time.Sleep(100 * time.Millisecond)
		_ = syscall.Kill(os.Getpid(), syscall.SIGTERM)
		time.Sleep(time.Minute)
	case "kill after logs":
		logger := otel.Logger("t")
		for i := range 100 {
			var r log.Record
			r.SetBody(attribute.IntValue(i))
			logger.Emit(ctx, r)
		}
		_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
	case "kill":
		_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
	}
}

// hung is a span processor whose Shutdown never returns.
type hung struct{ sdktrace.SpanProcessor }

func (hung) OnStart(context.Context, sdktrace.ReadWriteSpan) {}
func (hung) OnEnd(sdktrace.ReadOnlySpan)                     {}
func (hung) Shutdown(context.Context) error                  { select {} }

// ended runs child in a new process. It returns the output and the state in which the process
// ended.
func ended(t *testing.T, end string, env ...string) (output string, state *os.ProcessState) {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(append(os.Environ(), "ENTRACE_TEST_END="+end), env...)
	b, _ := cmd.CombinedOutput() // an error, because the process does not exit normally
	return string(b), cmd.ProcessState
}

// TestPanicLeavesItsReason: the trace has the text and the stack of a panic, or of a fatal error of
// the runtime, exactly once. Readers of the unfinished files see them as well.
func TestPanicLeavesItsReason(t *testing.T) {
	for end, want := range map[string]string{
		"panic": "panic: on purpose", "panic runs Shutdown": "panic: on purpose", "panic runs a function with Shutdown": "panic: on purpose",
		"Goexit runs Shutdown": "panic: on purpose", "fatal": "fatal error: several goroutines use a map at once, at ",
	} {
		for _, durability := range []string{"process", "writethrough"} {
			t.Run(end+" "+durability, func(t *testing.T) {
				clean(t)
				out, state := ended(t, end, "OTEL_EXPORTER_ENTRACE_DURABILITY="+durability)
				if state.ExitCode() != 2 || !strings.Contains(out, "goroutine ") || strings.Contains(out, "[recovered]") {
					t.Fatalf("%v\n%s", state, out)
				}
				crash := func() (texts []string) {
					f := tracetest.Open(t, "app.et")
					newest, died := uint64(0), uint64(0)
					must(t, f.Walk(0, func(_ uint32, e *format.TraceEntry) error {
						v, _ := e.Attribute(format.AttrTime)
						at, _ := v.U64()
						if e.Metadata.Name == mapping.NameCrash {
							texts, died = append(texts, strings.Clone(e.Message.Value)), at
						} else {
							newest = max(newest, at)
						}
						return nil
					}))
					if died < newest {
						t.Errorf("the crash is %v before the newest record", time.Duration(newest-died))
					}
					return texts
				}
				for _, when := range []string{"before recovery", "after it"} {
					if c := crash(); len(c) != 1 || !strings.Contains(c[0], want) || !strings.Contains(c[0], "entrace_test.child") {
						t.Errorf("%s there is %q", when, c)
					}
					_, err := recorder.Recover("app.et", "")
					must(t, err)
				}
				expect.Len(t, hosttest.Names(t, "."), 1, "the folder has")
			})
		}
	}
}

// TestLogFatalIsTheReason: the text of log.Fatal is one record at level ERROR with its stack, and the
// state has it, if there is a file for crash texts.
func TestLogFatalIsTheReason(t *testing.T) {
	for _, end := range []string{"log.Fatal", "log.Fatal without text"} {
		t.Run(end, func(t *testing.T) {
			clean(t)
			if out, state := ended(t, end); state.ExitCode() != 1 || !strings.Contains(out, "no database") {
				t.Errorf("%v\n%s", state, out)
			}
			for _, name := range glob(t, "*.crash") {
				if b, err := os.ReadFile(name); err != nil || strings.Contains(string(b), "hunter2") {
					t.Errorf("%s has a secret: %q, %v", name, b, err)
				}
			}
			f := tracetest.Open(t, "app.et")
			n := 0
			must(t, f.Walk(0, func(_ uint32, e *format.TraceEntry) error {
				if strings.Contains(e.Message.Value, "no database") {
					n++
					stack, _ := e.Attribute("exception.stacktrace")
					if e.Metadata.Level != format.LevelError || !strings.Contains(e.Message.Value+stack.Text(), "goroutine 1 [running") || strings.Contains(stack.Text(), "loghandler.go") {
						t.Errorf("the record is %v", e)
					}
				}
				return nil
			}))
			s, _ := convert.StateOf(t.Context(), f.Name(), false)
			if want := "killed (log.Fatal: no database, password=[redacted], at github.com/entrace-go/entrace_test.child end_unix_test.go:"; n != 1 || strings.HasPrefix(s.String(), want) != (end == "log.Fatal") {
				t.Errorf("there are %d records, and the state is %q; want one and %q", n, s, want)
			}
		})
	}
}

// TestShutdownAfterRecoveredPanic: if a panic runs Shutdown and is recovered, recording continues, and
// the next Shutdown finishes the file.
func TestShutdownAfterRecoveredPanic(t *testing.T) {
	clean(t)
	out, state := ended(t, "recovered")
	if !state.Success() || !strings.Contains(out, "Shutdown: <nil>") {
		t.Fatalf("%v\n%s", state, out)
	}
	v := tracetest.OpenView(t, "app.et")
	var got []string
	for row := range v.Rows() {
		message, _ := v.Message(row)
		if v.Role(row) == view.RoleLog {
			got = append(got, message)
		}
	}
	if want := []string{"begun", "it goes on"}; !slices.Equal(got, want) {
		t.Errorf("there are %q, want %q", got, want)
	}
	expect.Len(t, hosttest.Names(t, "."), 1, "the folder has")
}

// TestKillAfterEmitLosesNothing: if a process is killed after Emit has returned, the record is in
// the file.
func TestKillAfterEmitLosesNothing(t *testing.T) {
	clean(t)
	ended(t, "kill after logs")
	f := tracetest.Open(t, "app.et")
	v := tracetest.View(t, f)
	var got, want []string
	for row := range v.Rows() {
		if v.Role(row) == view.RoleLog && v.Name(v.Parent(row)) == "request" {
			message, _ := v.Message(row)
			got = append(got, message)
		}
	}
	want = append(want, "begun")
	for i := range 100 {
		want = append(want, strconv.Itoa(i))
	}
	if !slices.Equal(got, want) {
		t.Errorf("there are %q", got)
	}
}

// TestWithoutCrashText: with WithoutCrashText, a panic leaves no crash file.
func TestWithoutCrashText(t *testing.T) {
	clean(t)
	ended(t, "panic without text")
	if list := glob(t, "*.crash"); len(list) > 0 {
		t.Errorf("there is %q", list)
	}
}

// TestNextStartFinishesACrash: the next Setup with the same path finishes the file of the crashed
// process.
func TestNextStartFinishesACrash(t *testing.T) {
	clean(t)
	for _, end := range []string{"panic", "kill"} {
		ended(t, end)
		p := setup(t, exporter.WithPath("app.et"))
		must(t, p.Shutdown(t.Context()))
	}
	list, err := os.ReadDir(".")
	must(t, err)
	var names []string
	for _, e := range list {
		if !strings.HasSuffix(e.Name(), ".et") {
			t.Errorf("there is %s", e.Name())
		}
		names = append(names, e.Name())
	}
	if len(names) != 4 {
		t.Errorf("there is %q, want four traces", names)
	}
}

// TestSecondSignal: while Shutdown hangs, the second signal ends the process at once.
func TestSecondSignal(t *testing.T) {
	clean(t)
	begun := time.Now()
	out, state := ended(t, "signals")
	if w, ok := state.Sys().(syscall.WaitStatus); !ok || !w.Signaled() || w.Signal() != syscall.SIGTERM || time.Since(begun) > 30*time.Second {
		t.Errorf("it ended with %v after %v\n%s", state, time.Since(begun), out)
	}
}

// TestCrashIsTold: if Setup finds the ring of a dead process and makes a trace of it, it prints a
// notice.
func TestCrashIsTold(t *testing.T) {
	clean(t)
	t.Setenv("OTEL_EXPORTER_ENTRACE_CONTROL", "ring")
	t.Setenv("OTEL_SERVICE_NAME", "shop")
	var out strings.Builder
	for _, end := range []string{"panic runs Shutdown", "log.Fatal", "kill", "signal"} {
		said, _ := ended(t, end)
		out.WriteString(said)
	}
	for _, want := range []string{": panic: on purpose, at ", ": log.Fatal: no database, ", "killed, or os.Exit", "entrace: a flight recorder is on: it writes a trace to "} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("stderr has no %q:\n%s", want, out.String())
		}
	}
}

// TestEndsOnSignals: with WithSignals, SIGTERM leaves a finished file and ends the process.
func TestEndsOnSignals(t *testing.T) {
	clean(t)
	out, state := ended(t, "signal")
	if w, ok := state.Sys().(syscall.WaitStatus); !ok || !w.Signaled() || w.Signal() != syscall.SIGTERM {
		t.Errorf("it ended with %v\n%s", state, out)
	}
	f := tracetest.Open(t, "app.et")
	if last, err := f.Entry(uint32(f.Len() - 1)); err != nil || last.Metadata.Name != mapping.NameEnd || f.Format() != format.ET {
		t.Errorf("it is %v and ends with %v, %v", f.Format(), last, err)
	}
}
