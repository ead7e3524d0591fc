package control_test

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"testing"

	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"

	"github.com/entrace-go/entrace"
	"github.com/entrace-go/entrace/control"
	"github.com/entrace-go/entrace/exporter"
	"github.com/entrace-go/entrace/internal/testkit/expect"
	"github.com/entrace-go/entrace/internal/testkit/hosttest"
	"github.com/entrace-go/entrace/internal/testkit/tracetest"
	"github.com/entrace-go/entrace/internal/write/flightrecorder"
	"github.com/entrace-go/entrace/internal/write/setup"
	"github.com/entrace-go/entrace/slogadapter"
)

// TestOffIsOff counts the allocations of calls that record nothing.
func TestOffIsOff(t *testing.T) {
	var none *control.Control
	r := rigOf(t, base(t.TempDir(), control.RuntimeMetrics)) // spans and logs are off
	for name, c := range map[string]*control.Control{"nil": none, "off": r.ctl} {
		if c.Enabled(control.Spans | control.Logs) {
			t.Errorf("%s: spans or logs are on", name)
		}
		expect.Equal(t, hosttest.Allocations(1000, func() { c.Enabled(control.Spans) }), 0, "%s: Enabled allocates", name)
	}
	if !r.ctl.Enabled(control.RuntimeMetrics) {
		t.Error("what the ring has is not on")
	}
	on := rigOf(t, base(t.TempDir(), control.Logs))
	for name, log := range map[string]*slog.Logger{
		"the provider is off": r.log,
		"the level is below":  slog.New(slogadapter.New(on.ctl.Recorder(), &slogadapter.Options{Level: slog.LevelError})),
		"a nil control":       slog.New(slogadapter.New(none.Recorder(), nil)),
	} {
		if n := hosttest.Allocations(1000, func() { log.LogAttrs(context.Background(), slog.LevelWarn, "no", slog.Int("n", 1)) }); n != 0 {
			t.Errorf("%s: a refused record allocates %v", name, n)
		}
	}
	expect.Equal(t, on.ctl.Stats().Ring.Entries, 0, "entries of refused records in the ring")
}

// TestDroppedSpan compares the allocations of a dropped span with and without a control.
func TestDroppedSpan(t *testing.T) {
	r := rigOf(t, base(t.TempDir(), control.Logs))
	with := func(s sdktrace.Sampler, own ...sdktrace.TracerProviderOption) float64 {
		tp := sdktrace.NewTracerProvider(append(own, sdktrace.WithSampler(s))...)
		defer func() { must(t, tp.Shutdown(context.Background())) }()
		tracer := tp.Tracer("t")
		_, span := tracer.Start(t.Context(), "dropped")
		if span.IsRecording() {
			t.Error("the span is recorded")
		}
		return hosttest.Allocations(1000, func() {
			_, span := tracer.Start(context.Background(), "dropped", trace.WithSpanKind(trace.SpanKindServer))
			span.End()
		})
	}
	for _, next := range []sdktrace.Sampler{sdktrace.NeverSample(), sdktrace.TraceIDRatioBased(0), sdktrace.ParentBased(sdktrace.NeverSample())} {
		p, err := exporter.NewSpanProcessor(setup.WithFlight(flightrecorder.Of(r.ctl)))
		must(t, err)
		without := with(next)
		if got := with(entrace.RecordingSampler(next, r.ctl), sdktrace.WithSpanProcessor(p)); got != without {
			t.Errorf("%s: a dropped span allocates %v, without control %v", next.Description(), got, without)
		}
	}
}

// off is the child process of TestOffOpensNoFile. Its environment switches all recording off.
func off(dir string) error {
	if err := os.Chdir(dir); err != nil {
		return err
	}
	for name, value := range map[string]string{"OTEL_EXPORTER_ENTRACE_CONTROL": "off", "OTEL_EXPORTER_ENTRACE_PATH": "none"} {
		if err := os.Setenv(name, value); err != nil {
			return err
		}
	}
	before := runtime.NumGoroutine()
	p, err := entrace.Setup(context.Background())
	if err != nil {
		return err
	}
	if p.Control() != nil {
		return errors.New("there is a control")
	}
	log := slog.New(slogadapter.New(p.Recorder(), nil))
	for range 10 {
		ctx, span := p.TracerProvider().Tracer("t").Start(context.Background(), "span")
		log.ErrorContext(ctx, "error")
		span.End()
	}
	if n := runtime.NumGoroutine(); n > before {
		return errors.New("there are more goroutines than before")
	}
	return p.Shutdown(context.Background())
}

// TestOffOpensNoFile checks that a program which records nothing makes no file. It uses strace if possible.
func TestOffOpensNoFile(t *testing.T) {
	dir, calls := t.TempDir(), hosttest.Path(t, "calls")
	exe, err := os.Executable()
	must(t, err)
	run := func(name string, args ...string) (string, error) {
		cmd := exec.CommandContext(t.Context(), name, args...)
		cmd.Env = append(os.Environ(), childEnv+"=off", dirEnv+"="+dir)
		out, err := cmd.CombinedOutput()
		return string(out), err
	}
	traced := exec.CommandContext(t.Context(), "strace", "-f", "-o", os.DevNull, exe, "-test.run=^$").Run() == nil // strace may be forbidden
	if traced {
		out, err := run("strace", "-f", "-e", "trace=file,openat", "-o", calls, exe)
		if err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		text := tracetest.ReadFile(t, calls)
		if !strings.Contains(string(text), dir) {
			t.Fatal("strace has not seen the change of folder")
		}
		for line := range strings.Lines(string(text)) {
			for _, call := range []string{"O_CREAT", "mkdir", "rename", "symlink", "link(", "linkat(", "mknod"} {
				if strings.Contains(line, call) && !strings.Contains(line, "readlink") {
					t.Errorf("it makes a file: %s", line)
				}
			}
		}
	} else if out, err := run(exe); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	t.Logf("system calls were looked at: %t", traced)
	expect.Len(t, hosttest.Names(t, dir), 0, "the folder has")
}
