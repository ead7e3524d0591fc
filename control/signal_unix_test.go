//go:build unix

package control_test

import (
	"context"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/entrace-go/entrace/control"
)

// TestAskBySignal requests traces by signals. They count as manual requests, for which the rate limits do
// not apply.
func TestAskBySignal(t *testing.T) {
	r := rigOf(t, base(t.TempDir(), control.Logs,
		control.TraceConfig{Name: "usr1", Providers: control.Logs, On: []control.On{{Trigger: control.TriggerSignal}}, Every: time.Hour, PerHour: 1},
		control.TraceConfig{Name: "usr2", Providers: control.Logs, On: []control.On{{Trigger: control.TriggerSignal, Key: "SIGUSR2"}}}))
	for i, sig := range []unix.Signal{unix.SIGUSR1, unix.SIGUSR1, unix.SIGUSR2} {
		must(t, unix.Kill(unix.Getpid(), sig))
		trace := r.wait(i + 1)[i] // wait here, because the system may merge two signals
		w := everyLink(t, trace.Path())
		if got, want := w.attr(w.head, "key"), unix.SignalName(sig); got != want || w.attr(w.head, "manual") != "true" {
			t.Errorf("the trace is of %q, by hand: %q; want %q", got, w.attr(w.head, "manual"), want)
		}
	}
	r.quiet()
}

// TestSignalsThatWaitAreOneSnapshot sends signals while a snapshot is written. They count as one request, and Shutdown
// drops this request.
func TestSignalsThatWaitAreOneSnapshot(t *testing.T) {
	g := newGate()
	cfg := hostile(t.TempDir())
	cfg.Traces[0].On = []control.On{{Trigger: control.TriggerSignal}}
	r := newRig(t, control.Options{Config: cfg, Providers: []control.Provider{g.dumper()}})
	must(t, unix.Kill(unix.Getpid(), unix.SIGUSR1))
	<-g.entered
	counted := func(v control.Verdict) uint64 { return r.ctl.Stats().Verdicts[control.TriggerSignal][v] }
	eventually(t, "signals count as one", func() bool {
		must(t, unix.Kill(unix.Getpid(), unix.SIGUSR1))
		return counted(control.VerdictCoalesced) > 1
	})
	ended := make(chan error)
	go func() { ended <- r.ctl.Shutdown(context.Background()) }()
	eventually(t, "Shutdown begins", func() bool { return r.verdict(ask("shot")) == control.VerdictClosed })
	close(g.opened)
	must(t, <-ended)
	if n := len(r.traces()); n != 1 || counted(control.VerdictClosed) != 1 {
		t.Errorf("there are %d traces, and Shutdown dropped %d requests; want one and one", n, counted(control.VerdictClosed))
	}
	r.quiet()
}
