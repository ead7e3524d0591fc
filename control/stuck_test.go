package control_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/entrace-go/entrace/control"
	"github.com/entrace-go/entrace/internal/testkit/expect"
)

// answersWhileStuck makes all calls that must not block while a trace of ctl is blocked. Each must return
// and have its effect at once. The trace stream was requested with the key "stream".
func answersWhileStuck(t *testing.T, ctl *control.Control, stream *control.Trace) {
	t.Helper()
	first := ctl.Config()
	next := *first
	next.ID = "next"
	call := func(name string, fn func() error) {
		t.Helper()
		within(t, name, func() {
			expect.Is(t, fn(), nil, "%s", name)
		})
	}
	inForce := func(id string) {
		t.Helper()
		call("Config", func() error {
			expect.Equal(t, ctl.Config().ID, id, "configuration in force")
			return nil
		})
	}
	call("SetConfig", func() error { return ctl.SetConfig(&next) })
	inForce("next")
	call("SetConfig back", func() error { return ctl.SetConfig(first) })
	call("Fire", func() error { ctl.Fire(ask("shot")); return nil })
	call("Start of what runs already", func() error {
		var denied *control.DeniedError
		if _, err := ctl.Start(t.Context(), stream.Request); !errors.As(err, &denied) || denied.Verdict != control.VerdictAlreadyRunning {
			t.Errorf("a second stream: %v", err)
		}
		return nil
	})
	call("Running", func() error {
		if got := ctl.Running(); len(got) != 1 || got[0] != stream {
			t.Errorf("%v run, want the stream", got)
		}
		return nil
	})
	call("Stop", func() error {
		if !ctl.Stop(stream.Request) || ctl.Stop(stream.Request) {
			t.Error("Stop finds nothing, or finds it twice")
		}
		return nil
	})
	call("Stats", func() error {
		if got := ctl.Stats(); got.Config != first.ID || got.Verdicts[control.TriggerAPI][control.VerdictAlreadyRunning] != 1 {
			t.Errorf("the account is %+v", got)
		}
		return nil
	})
	expect.Equal(t, len(ctl.Running()), 0, "streams run after Stop")
	ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
	defer cancel()
	call("Start with a context that ends", func() error {
		expect.Is(t, expect.Err(ctl.Start(ctx, ask("deep"))), context.DeadlineExceeded, "a stream begins")
		return nil
	})
}

// wantStopped waits for the end of a stream and checks that Stop was the reason.
func wantStopped(t *testing.T, stream *control.Trace) {
	t.Helper()
	within(t, "the end of the stream", func() { <-stream.Done() })
	w := everyLink(t, stream.Path())
	if got := w.attr(w.one("trace end"), "end.reason"); got != "stopped" || stream.Err() != nil {
		t.Errorf("the stream ended for %q, %v", got, stream.Err())
	}
}

// TestCallsReturnWhileADumperBlocks makes calls while a call of Dump blocks.
func TestCallsReturnWhileADumperBlocks(t *testing.T) {
	g := newGate()
	ctl := start(t, &control.Options{Config: hostile(t.TempDir()), Providers: []control.Provider{g.dumper()}})
	stream, err := ctl.Start(t.Context(), ask("deep"))
	must(t, err)
	ctl.Fire(ask("shot"))
	<-g.entered
	answersWhileStuck(t, ctl, stream)
	close(g.opened)
	wantStopped(t, stream)
}

// TestStopIsTheEndOfAStream blocks the end of a stream in Dump. The stream does not get records that are
// made after Stop.
func TestStopIsTheEndOfAStream(t *testing.T) {
	g := newGate()
	r := newRig(t, control.Options{Config: hostile(t.TempDir()), Providers: []control.Provider{g.dumper()}})
	stream := r.start(ask("deep"))
	r.log.Info("before")
	if !r.ctl.Stop(ask("deep")) {
		t.Error("there is nothing to stop")
	}
	r.log.Info("after")
	<-g.entered
	r.log.Info("after")
	close(g.opened)
	wantStopped(t, stream)
	if m := everyLink(t, stream.Path()).messages(); m["before"] != 1 || m["after"] != 0 {
		t.Errorf("the stream has %v", m)
	}
}

// TestStopOfAStreamThatHasNotBegun stops a stream that still waits for the writer.
func TestStopOfAStreamThatHasNotBegun(t *testing.T) {
	g := newGate()
	r := newRig(t, control.Options{Config: hostile(t.TempDir()), Providers: []control.Provider{g.dumper()}})
	r.ctl.Fire(ask("shot"))
	<-g.entered
	r.ctl.Fire(ask("deep"))
	expect.Equal(t, len(r.ctl.Running()), 0, "streams run")
	if !r.ctl.Stop(ask("deep")) || r.ctl.Stop(ask("deep")) {
		t.Error("Stop does not find the stream, or finds it twice")
	}
	close(g.opened)
	for _, trace := range r.wait(2) {
		if trace.Name == "deep" {
			wantStopped(t, trace)
		}
	}
}

// TestCallsReturnWhileAProviderBlocks makes calls while Start of a provider blocks the beginning of a
// stream.
func TestCallsReturnWhileAProviderBlocks(t *testing.T) {
	g := newGate()
	cfg := hostile(t.TempDir())
	cfg.Traces[0].Providers = control.Logs // otherwise the provider would always run
	cfg.Traces[1].Providers = control.Logs
	cfg.Traces = append(cfg.Traces, control.TraceConfig{Name: "stuck", Mode: control.ModeStream, Providers: hostileBit, On: onAPI("stuck")})
	ctl := start(t, &control.Options{Config: cfg, Providers: []control.Provider{{
		Provides: hostileBit, Start: func(*control.Session) error { return g.enter() },
	}}})
	stream, err := ctl.Start(t.Context(), ask("deep"))
	must(t, err)
	ctl.Fire(ask("stuck"))
	<-g.entered
	eventually(t, "the other stream feeds", func() bool { return len(ctl.Running()) == 2 })
	must(t, errorIf(!ctl.Stop(ask("stuck")), "there is nothing to stop"))
	answersWhileStuck(t, ctl, stream)
	close(g.opened)
	wantStopped(t, stream)
}

func errorIf(is bool, text string) error {
	if is {
		return errors.New(text)
	}
	return nil
}
