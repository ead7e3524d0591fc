package provider

import (
	"bytes"
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"runtime/trace"
	"strings"
	"testing"

	"github.com/entrace-go/entrace/control"
)

func TestExecTrace(t *testing.T) {
	r, x := &record{}, &execTrace{}
	s := r.session(control.ExecTrace, nil)
	if err := x.dump(t.Context(), s); err == nil {
		t.Error("Dump before Start gives no error")
	}
	must(t, x.start(s))
	trace.Log(t.Context(), "entrace", "are you there")
	must(t, x.dump(t.Context(), s))
	must(t, x.stop())
	if err := x.dump(t.Context(), s); err == nil {
		t.Error("Dump after Stop gives no error")
	}
	if len(r.entries) != 1 {
		t.Fatalf("%d entries, want 1", len(r.entries))
	}
	e := r.entries[0]
	v, _ := e.Attribute("data")
	data := v.Bytes()
	if e.Message.Value != "execution trace" || e.p != control.ExecTrace || e.u64(t, "bytes") != uint64(len(data)) {
		t.Errorf("entry %q of %v, %d bytes", e.Message.Value, e.p, len(data))
	}
	if !bytes.HasPrefix(data, []byte("go 1.")) || !bytes.HasPrefix(data[len("go 1.26"):], []byte(" trace\x00")) {
		t.Fatalf("the trace begins with %q", data[:min(16, len(data))])
	}
	if !bytes.Contains(data, []byte("are you there")) {
		t.Error("the trace has no log message in it")
	}

	tool, err := exec.LookPath("go")
	if err != nil {
		t.Skip("there is no go command")
	}
	name := filepath.Join(t.TempDir(), "trace.out")
	must(t, os.WriteFile(name, data, 0o600))
	out, err := exec.CommandContext(t.Context(), tool, "tool", "trace", "-d=parsed", name).CombinedOutput()
	if err != nil {
		t.Fatalf("go tool trace: %v\n%s", err, out[:min(len(out), 2000)])
	}
	if !bytes.Contains(out, []byte("are you there")) {
		t.Errorf("go tool trace shows no log message in %d bytes", len(out))
	}
}

func TestExecTraceInUse(t *testing.T) {
	other := trace.NewFlightRecorder(trace.FlightRecorderConfig{})
	must(t, other.Start())
	r, x := &record{}, &execTrace{}
	if err := x.start(r.session(control.ExecTrace, nil)); err == nil || !strings.Contains(err.Error(), "already in use") {
		t.Errorf("Start gives %v, want already in use", err)
	}
	must(t, x.stop())
	if !other.Enabled() {
		t.Error("the other one was stopped")
	}
	other.Stop()
	must(t, x.start(r.session(control.ExecTrace, nil)))
	must(t, x.stop())
}

// TestExecTraceWithTracer runs while other code traces as well.
func TestExecTraceWithTracer(t *testing.T) {
	if trace.IsEnabled() {
		t.Skip("the test is traced")
	}
	var other bytes.Buffer
	must(t, trace.Start(&other))
	defer trace.Stop()
	r, x := &record{}, &execTrace{}
	must(t, x.start(r.session(control.ExecTrace, nil)))
	must(t, x.dump(t.Context(), r.session(control.ExecTrace, nil)))
	must(t, x.stop())
	if len(r.entries) != 1 || !trace.IsEnabled() {
		t.Errorf("%d entries, the tracer runs: %v", len(r.entries), trace.IsEnabled())
	}
}

func TestExecTraceTooLarge(t *testing.T) {
	r, x := &record{}, &execTrace{most: 1000}
	s := r.session(control.ExecTrace, map[string]string{"exec.trace.max_bytes": "-1"})
	must(t, x.start(s))
	must(t, x.dump(t.Context(), s))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := x.dump(ctx, s); !errors.Is(err, context.Canceled) {
		t.Errorf("Dump gives %v, want context.Canceled", err)
	}
	must(t, x.stop())
	if e := r.entries[0]; len(r.entries) != 1 || e.Message.Value != "execution trace too large to keep" || e.has("data") || e.u64(t, "bytes") <= 1000 {
		t.Errorf("%d entries, the first is %q: %d bytes", len(r.entries), e.Message.Value, e.u64(t, "bytes"))
	}
}
