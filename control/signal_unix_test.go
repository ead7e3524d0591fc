//go:build unix

package control_test

import (
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
