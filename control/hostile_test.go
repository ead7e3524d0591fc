package control_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/entrace-go/entrace/control"
	"github.com/entrace-go/entrace/format"
	"github.com/entrace-go/entrace/internal/testkit/expect"
	"github.com/entrace-go/entrace/internal/testkit/hosttest"
	"github.com/entrace-go/entrace/internal/testkit/tracetest"
	"github.com/entrace-go/entrace/internal/write/flightrecorder"
	"github.com/entrace-go/entrace/internal/write/inside"
	"github.com/entrace-go/entrace/recorder"
)

// In these tests, code outside of the control misbehaves: it panics, blocks, calls back, or changes files.

var hostileBit = control.Register("hostile.test")

// hostile returns a configuration with a snapshot and a stream that the application can request.
func hostile(dir string) *control.Config {
	api := func(key string) []control.On { return []control.On{{Trigger: control.TriggerAPI, Key: key}} }
	p := control.Logs | hostileBit
	return &control.Config{
		ID: "hostile", Dir: dir, Ring: control.RingConfig{Bytes: 4 << 20, Persist: true, Always: control.Spans | control.Logs},
		Traces: []control.TraceConfig{
			{Name: "shot", Providers: p, On: api("shot")},
			{Name: "deep", Mode: control.ModeStream, Providers: p, On: api("deep")},
		},
	}
}

// TestHostileCallbacks calls the control in its own callbacks.
func TestHostileCallbacks(t *testing.T) {
	var ctl *control.Control
	ready, told := make(chan struct{}), make(chan struct{})
	var once sync.Once
	calls := func() {
		<-ready
		ctl.Stats()
		_ = ctl.SetConfig(ctl.Config())
		_, _ = ctl.Start(context.Background(), ask("shot"))
		ctl.Stop(ask("deep"))
		once.Do(func() { close(told) })
	}
	cfg := hostile(t.TempDir())
	ctl = start(t, &control.Options{
		Config: cfg, Providers: []control.Provider{{Provides: hostileBit, Start: func(*control.Session) error { return errors.New("no") }}},
		OnError: func(error) { calls() }, OnTrace: func(*control.Trace) { calls() },
	})
	close(ready)
	within(t, "Start", func() { _, _ = ctl.Start(t.Context(), ask("deep")) })
	within(t, "a callback", func() { <-told })
}

// TestHostileShutdown calls Shutdown twice while Dump blocks, and other methods after that.
func TestHostileShutdown(t *testing.T) {
	g := newGate()
	dir := t.TempDir()
	cfg := hostile(dir)
	ctl, err := control.New(&control.Options{Config: cfg, Providers: []control.Provider{g.dumper()}})
	must(t, err)
	go func() { _, _ = ctl.Start(context.Background(), ask("shot")) }()
	<-g.entered
	go func() { _ = ctl.SetConfig(hostile(dir)) }()
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	within(t, "Shutdown", func() {
		expect.Is(t, ctl.Shutdown(ctx), context.DeadlineExceeded, "the first says")
		expect.Is(t, ctl.Shutdown(ctx), context.DeadlineExceeded, "the second says")
	})
	if _, err := ctl.Start(t.Context(), ask("deep")); err == nil {
		t.Error("a stream begins after Shutdown")
	}
	close(g.opened)
	must(t, ctl.Shutdown(context.Background()))
	if err := ctl.SetConfig(cfg); err == nil {
		t.Error("a configuration is taken after Shutdown")
	}
	for _, pattern := range []string{"*.ring", "*.crash", "*.iet*"} {
		if list, _ := filepath.Glob(filepath.Join(dir, pattern)); len(list) > 0 {
			t.Errorf("left are %q", list)
		}
	}
}

// TestHostileExit calls Shutdown several times at once. Only one trace is made for the exit.
func TestHostileExit(t *testing.T) {
	dir := t.TempDir()
	cfg := hostile(dir)
	cfg.Traces[0].On = []control.On{{Trigger: control.TriggerExit}}
	ctl, err := control.New(&control.Options{Config: cfg})
	must(t, err)
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() { must(t, ctl.Shutdown(context.Background())) })
	}
	wg.Wait()
	if list, _ := filepath.Glob(filepath.Join(dir, "*.et")); len(list) != 1 {
		t.Errorf("there are %q", list)
	}
}

// TestHostileFeedback logs each reported error to the ring, where errors request traces. No endless loop
// begins.
func TestHostileFeedback(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := hosttest.Path(t, "traces")
		cfg := hostile(dir)
		cfg.Ring.Persist = false
		cfg.Traces[0].On = onError()
		var ctl *control.Control
		var told atomic.Int64
		said := func() {
			e := &format.TraceEntry{Message: format.Some("wrong"), Metadata: format.Metadata{Name: "event", Level: format.LevelError}}
			_ = ctl.Recorder().Log(format.SpanRef{}, e)
		}
		ctl, err := control.New(&control.Options{Config: cfg, OnError: func(error) { told.Add(1); said() }})
		must(t, err)
		must(t, os.RemoveAll(dir))
		said()
		synctest.Wait()
		if ctl.Stats().Lost == 0 {
			t.Error("no trace is lost")
		}
		time.Sleep(time.Hour)
		synctest.Wait()
		if n := told.Load(); n > 3 {
			t.Errorf("one record led to %d errors", n)
		}
		must(t, os.MkdirAll(dir, 0o700))
		must(t, ctl.Shutdown(context.Background()))
	})
}

// TestHostileDump requests traces while an earlier call of Dump blocks. The provider is off for them.
func TestHostileDump(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg := hostile(t.TempDir())
		cfg.Ring.Persist = false
		release := make(chan struct{})
		var at atomic.Int64
		ctl := start(t, &control.Options{Config: cfg, Providers: []control.Provider{{Provides: hostileBit, Dump: func(context.Context, *control.Session) error {
			if at.Add(1) > 1 {
				t.Error("two dumps at once")
			}
			<-release
			at.Add(-1)
			return nil
		}}}})
		for range 2 {
			trace, err := ctl.Start(t.Context(), ask("shot"))
			must(t, err)
			if w := everyLink(t, trace.Path()); len(w.named("provider off")) == 0 {
				t.Error("the provider is not named")
			}
		}
		close(release)
	})
}

type unwrapsNil struct{ err error }

func (u *unwrapsNil) Error() string { return "bad" }
func (u *unwrapsNil) Unwrap() error { return u.err } // panics if u is nil

// TestHostilePanic lets CapturePanic handle a value whose method panics.
func TestHostilePanic(t *testing.T) {
	ctl := start(t, &control.Options{Config: hostile(t.TempDir())})
	defer func() {
		if p, ok := recover().(*unwrapsNil); !ok || p != nil {
			t.Errorf("what comes out is %v", p)
		}
	}()
	defer ctl.CapturePanic()
	panic((*unwrapsNil)(nil))
}

func TestNilControl(t *testing.T) {
	var ctl *control.Control
	ctl.Fire(ask("x"))
	flightrecorder.Of(ctl).WatchSpans(nil)()
	if ctl.Enabled(control.Spans) || ctl.Dir() != "" || ctl.Config() != nil || !ctl.Recorder().Discards() || ctl.Stop(ask("x")) || len(ctl.Running()) > 0 {
		t.Error("a nil Control does something")
	}
	_, err := ctl.Start(t.Context(), ask("x"))
	if err == nil || ctl.SetConfig(nil) == nil || ctl.Shutdown(t.Context()) != nil {
		t.Error("a nil Control says that it does something")
	}
}

// TestHostileCrashText replaces the crash text of a ring by a symbolic link. Recovery does not read the
// target.
func TestHostileCrashText(t *testing.T) {
	live := t.TempDir()
	ctl := start(t, &control.Options{Config: hostile(live), BufferDir: live})
	must(t, ctl.Recorder().Log(format.SpanRef{}, tracetest.Log("said")))
	rings, _ := filepath.Glob(filepath.Join(live, "*.ring"))
	if len(rings) != 1 {
		if runtime.GOOS == "linux" {
			t.Fatalf("there are the rings %q, want one", rings)
		}
		t.Skip("no ring in a file here")
	}
	dir := t.TempDir()
	in, err := os.Open(rings[0])
	must(t, err)
	defer in.Close()
	left := filepath.Join(dir, filepath.Base(rings[0]))
	out, err := os.Create(left)
	must(t, err)
	_, err = io.Copy(out, in)
	must(t, errors.Join(err, out.Close()))
	secret := hosttest.Path(t, "secret")
	must(t, os.WriteFile(secret, []byte("a secret"), 0o600))
	must(t, os.Symlink(secret, strings.TrimSuffix(left, ".ring")+".crash"))
	crashes, _, err := recovered(dir)
	if err != nil || len(crashes) != 1 || crashes[0].Err != nil || crashes[0].Reason != "" {
		t.Errorf("recovered are %+v, %v", crashes, err)
	}
	if b, err := os.ReadFile(crashes[0].Output); err != nil || strings.Contains(string(b), "secret") {
		t.Errorf("the secret is in the trace (%v)", err)
	}
}

// TestWatchdogRules checks the verdicts for requests of the watchdog, and for the ends of their spans.
func TestWatchdogRules(t *testing.T) {
	cfg := hostile(t.TempDir())
	cfg.Traces = []control.TraceConfig{
		{Name: "hang", Providers: control.Spans, On: []control.On{{Trigger: control.TriggerWatchdog, Key: "checkout", LongerThan: time.Millisecond}}},
		{Name: "never", Providers: control.Spans, On: []control.On{{Trigger: control.TriggerWatchdog, Key: "search", LongerThan: time.Millisecond, Count: 100}}},
		{Name: "slow", Providers: control.Spans, On: []control.On{{Trigger: control.TriggerSpan, LongerThan: time.Millisecond}}},
	}
	ctl := start(t, &control.Options{Config: cfg})
	ref := func(n byte) format.SpanRef {
		return format.SpanRef{TraceID: [16]byte{1}, SpanID: [8]byte{n, 1}}
	}
	begun := time.Now().Add(-time.Second)
	var asked atomic.Int64
	stop := flightrecorder.Of(ctl).WatchSpans(func(_ time.Time, fn func(string, format.SpanRef, format.SpanRef, time.Time) bool) {
		asked.Add(1)
		for i := range 20_000 { // many spans that match no rule
			if !fn("websocket", format.SpanRef{TraceID: [16]byte{2}, SpanID: [8]byte{byte(i), byte(i >> 8), 1}}, format.SpanRef{}, begun) {
				return
			}
		}
		fn("checkout", ref(1), format.SpanRef{}, begun)
		fn("search", ref(2), format.SpanRef{}, begun)
	})
	defer stop()
	count := func(trigger control.Trigger, v control.Verdict) uint64 { return ctl.Stats().Verdicts[trigger][v] }
	eventually(t, "the watchdog sees the span", func() bool { return count(control.TriggerWatchdog, control.VerdictStarted) == 1 })
	for range 3 { // a new configuration does not make the watchdog request another trace for this span
		again := *cfg
		again.ID += "+"
		must(t, ctl.SetConfig(&again))
		n := asked.Load()
		eventually(t, "another look", func() bool { return asked.Load() > n+1 })
	}
	expect.Equal(t, count(control.TriggerWatchdog, control.VerdictStarted), 1, "traces of one span")
	endSpan(t, ctl, "checkout", ref(1), time.Second)
	if n := count(control.TriggerSpan, control.VerdictCoalesced); n != 1 {
		t.Errorf("the end of the span that there is a trace of: %v", ctl.Stats().Verdicts)
	}
	endSpan(t, ctl, "search", ref(2), time.Second)
	eventually(t, "the end of the other is a request", func() bool { return count(control.TriggerSpan, control.VerdictStarted) == 1 })
}

// endSpan records the end of a span as a span processor does.
func endSpan(t *testing.T, ctl *control.Control, name string, span format.SpanRef, took time.Duration) {
	t.Helper()
	b := flightrecorder.Of(ctl).Recorder().Batch()
	b.Span(&recorder.Span{Ref: span})
	b.Entry(tracetest.Entry(name))
	inside.OfBatch(b).Ended(span, name, took)
	must(t, b.Write())
}

// TestKeepIfClasses checks that keep_if counts traces that match and other traces separately.
func TestKeepIfClasses(t *testing.T) {
	cfg := hostile(t.TempDir())
	cfg.Traces[1].Providers = control.Logs
	cfg.Traces[1].KeepIf = &control.KeepIf{Any: []string{"tenant=acme"}, Else: 2}
	ctl := start(t, &control.Options{Config: cfg})
	kept := make(map[string]int)
	for i := range 20 {
		tenant := []string{"acme", "other"}[i%2]
		trace, err := ctl.Start(t.Context(), ask("deep"))
		must(t, err)
		must(t, ctl.Recorder().Log(format.SpanRef{}, tracetest.Log("said", "tenant", tenant)))
		ctl.Stop(ask("deep"))
		<-trace.Done()
		if trace.Verdict() == control.VerdictStarted {
			kept[tenant]++
		}
	}
	if fmt.Sprint(kept) != "map[acme:10 other:5]" {
		t.Errorf("kept are %v", kept)
	}
}
