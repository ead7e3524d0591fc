package control_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/big"
	"os"
	"path/filepath"
	"runtime/pprof"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/entrace-go/entrace/control"
	"github.com/entrace-go/entrace/format"
	"github.com/entrace-go/entrace/internal/testkit/expect"
	"github.com/entrace-go/entrace/internal/testkit/tracetest"
)

// The bits of the provider fake.
var (
	bitA = control.Register("accept.a")
	bitB = control.Register("accept.b")
)

// A fake is a provider of bitA and bitB that remembers its calls.
type fake struct {
	mu      sync.Mutex
	calls   []string
	session *control.Session // nil: the provider does not run
}

func (f *fake) provider() control.Provider {
	return control.Provider{Provides: bitA | bitB, Start: f.start, Stop: f.stop}
}

func (f *fake) start(s *control.Session) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.session != nil {
		f.calls = append(f.calls, "start while it runs")
	}
	f.calls, f.session = append(f.calls, "start "+s.On.String()), s
	return nil
}

func (f *fake) stop() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.calls, f.session = append(f.calls, "stop"), nil
	return nil
}

// tell writes an entry for bitA and one for bitB, if they are on.
func (f *fake) tell(t *testing.T, name string) {
	t.Helper()
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, p := range []control.Set{bitA, bitB} {
		if f.session != nil && f.session.On&p != 0 {
			must(t, f.session.Write(p, format.SpanRef{}, time.Now(), &format.TraceEntry{
				Message: format.Some(p.String() + " " + name), Metadata: format.Metadata{Name: "fake"},
			}))
		}
	}
}

func (f *fake) told() string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return strings.Join(f.calls, ", ")
}

// TestNestedTraces runs overlapping streams that share a provider.
func TestNestedTraces(t *testing.T) {
	const a, ab = "accept.a", "accept.a,accept.b"
	type list = []string
	tests := []struct {
		steps string // the streams that are started (+) and stopped (-), in this order
		calls string
		on    []control.Set // the providers that are on after each step
		small list          // the entries of fake in the trace with only bitA
		large list
	}{
		{
			steps: "+small +large -small -large", calls: "start " + a + ", stop, start " + ab + ", stop",
			on:    []control.Set{bitA, bitA | bitB, bitA | bitB, 0},
			small: list{"accept.a 0", "accept.a 1"}, large: list{"accept.a 1", "accept.a 2", "accept.b 1", "accept.b 2"},
		},
		{
			steps: "+small +large -large -small", calls: "start " + a + ", stop, start " + ab + ", stop, start " + a + ", stop",
			on:    []control.Set{bitA, bitA | bitB, bitA, 0},
			small: list{"accept.a 0", "accept.a 1", "accept.a 2"}, large: list{"accept.a 1", "accept.b 1"},
		},
		{
			steps: "+large +small -large -small", calls: "start " + ab + ", stop, start " + a + ", stop",
			on:    []control.Set{bitA | bitB, bitA | bitB, bitA, 0},
			small: list{"accept.a 1", "accept.a 2"}, large: list{"accept.a 0", "accept.a 1", "accept.b 0", "accept.b 1"},
		},
	}
	for _, tt := range tests {
		t.Run(tt.steps, func(t *testing.T) {
			f := &fake{}
			cfg := base(t.TempDir(), 0,
				control.TraceConfig{Name: "small", Mode: control.ModeStream, Providers: bitA, On: onAPI("small")},
				control.TraceConfig{Name: "large", Mode: control.ModeStream, Providers: bitA | bitB, On: onAPI("large")})
			cfg.Ring.Bytes = 0
			r := newRig(t, control.Options{Config: cfg, Providers: []control.Provider{f.provider()}})
			for i, step := range strings.Fields(tt.steps) {
				if step[0] == '+' {
					r.start(api(step[1:]))
				} else if !r.stop(api(step[1:])) {
					t.Errorf("%s: there was nothing to stop", step)
				}
				for _, p := range []control.Set{bitA, bitB} {
					expect.Equal(t, r.ctl.Enabled(p), tt.on[i]&p != 0, "after %s: %v is on", step, p)
				}
				f.tell(t, fmt.Sprint(i))
			}
			expect.Equal(t, f.told(), tt.calls, "the provider was told")
			for _, trace := range r.wait(2) {
				w := everyLink(t, trace.Path())
				var got []string
				for _, id := range w.named("fake") {
					got = append(got, w.entries[id].Message.Value)
				}
				slices.Sort(got)
				want := tt.small
				if trace.Name == "large" {
					want = tt.large
				}
				expect.Slice(t, got, want, "the trace %s has", trace.Name)
			}
			r.quiet()
		})
	}
}

// TestProviderConflict begins a stream with a CPU profile while other code runs one, and again when no other profile
// runs.
func TestProviderConflict(t *testing.T) {
	if err := pprof.StartCPUProfile(io.Discard); err != nil {
		t.Skipf("the tests are profiled themselves: %v", err)
	}
	stopped := false
	stop := func() {
		if !stopped {
			stopped = true
			pprof.StopCPUProfile()
		}
	}
	defer stop()
	r := rigOf(t, base(t.TempDir(), control.Logs, control.TraceConfig{
		Name: "deep", Mode: control.ModeStream, Providers: control.Logs | control.CPUProfile, On: onAPI("deep"),
	}))
	r.start(api("deep"))
	r.log.Info("recorded all the same")
	expect.Has(t, r.ctl.Stats().Off["cpu.profile"], "already in use", "the account says that the provider is off for")
	r.stop(api("deep"))
	w := r.last(1)
	id := w.one("provider off")
	if got := w.attr(id, "error"); w.attr(id, "provider") != "cpu.profile" || !strings.Contains(got, "already in use") {
		t.Errorf("the trace says of %s: %q", w.attr(id, "provider"), got)
	}
	expect.Equal(t, w.entries[id].Parent, w.head, "that is below entry")
	if w.messages()["recorded all the same"] != 1 {
		t.Error("the log record is not in the trace")
	}
	stop()
	for n, end := 2, time.Now().Add(patience); ; n++ {
		r.start(api("deep"))
		burn()
		r.stop(api("deep"))
		w := r.last(n)
		if ids := w.named("provider off"); len(ids) != 0 {
			t.Fatalf("the provider is off: %s", w.attr(ids[0], "error"))
		}
		if len(w.named("cpu.profile")) > 0 {
			break
		}
		if time.Now().After(end) {
			t.Fatal("there are no samples")
		}
	}
	if why, is := r.ctl.Stats().Off["cpu.profile"]; is {
		t.Errorf("the account says still that the provider is off: %s", why)
	}
}

// burn uses CPU time for 200 ms.
func burn() {
	n := new(big.Int).Exp(big.NewInt(3), big.NewInt(4000), nil)
	for end := time.Now().Add(200 * time.Millisecond); time.Now().Before(end); {
		new(big.Int).Mul(n, n)
	}
}

// TestTracesKeepNoJournal checks that a program can keep all traces that OnTrace gets, without keeping
// their journals in memory.
func TestTracesKeepNoJournal(t *testing.T) {
	if testing.Short() {
		t.Skip("a long computation of one goroutine")
	}
	cfg := base(t.TempDir(), control.Logs, control.TraceConfig{Name: "s", Mode: control.ModeStream, Providers: control.Logs, On: onAPI("s")})
	r := rigOf(t, cfg)
	before := tracetest.HeapMB()
	for range 100 {
		r.start(api("s"))
		for range 100 {
			r.log.Info("work")
		}
		r.stop(api("s"))
	}
	if more := tracetest.HeapMB() - before; more > 3 && more < 1<<20 {
		t.Errorf("100 traces keep %d MB", more)
	}
}

// TestStreamIsFull records to a stream until the stream reaches MaxBytes.
func TestStreamIsFull(t *testing.T) {
	const most = 64 << 10
	r := rigOf(t, base(t.TempDir(), control.Logs, control.TraceConfig{
		Name: "small", Mode: control.ModeStream, Providers: control.Logs, MaxBytes: most, On: onAPI("small"), Timeout: time.Hour,
	}))
	text := strings.Repeat("x", 500)
	for round := range 3 {
		q := api("small")
		q.Manual = round == 2 // the limit is also for manual requests
		trace := r.start(q)
		n := 0
		eventually(t, "the stream ends", func() bool {
			for range 10 {
				r.log.Info(text)
				n++
			}
			select {
			case <-trace.Done():
				return true
			default:
				return false
			}
		})
		w := r.last(round + 1)
		end := w.one("trace end")
		expect.Equal(t, w.attr(end, "end.reason"), "max_bytes", "the stream ended for")
		if got := w.messages()[text]; got < most/1000 || got > n {
			t.Errorf("the stream has %d of %d records", got, n)
		}
		if filepath.Base(trace.Path()) != w.name || len(r.ctl.Running()) != 0 {
			t.Errorf("%d streams run still", len(r.ctl.Running()))
		}
	}
	r.quiet()
}

// TestStreamEnds ends streams in the other ways.
func TestStreamEnds(t *testing.T) {
	stream := func(name string) control.TraceConfig {
		return control.TraceConfig{Name: name, Mode: control.ModeStream, Providers: control.Logs, On: onAPI(name), Timeout: time.Hour}
	}
	short := stream("timeout")
	short.Timeout = 30 * time.Millisecond
	dir := t.TempDir()
	r := rigOf(t, base(dir, control.Logs, stream("stopped"), short, stream("shutdown")))
	for _, name := range []string{"stopped", "timeout", "shutdown"} {
		r.start(api(name))
	}
	r.stop(api("stopped"))
	r.wait(2)
	must(t, r.ctl.Shutdown(context.Background()))
	for _, trace := range r.wait(3) {
		w := everyLink(t, trace.Path())
		if got := w.attr(w.one("trace end"), "end.reason"); got != trace.Name {
			t.Errorf("%s ended for %q", trace.Name, got)
		}
	}
	expect.Equal(t, r.verdict(api("stopped")), control.VerdictClosed, "after Shutdown the verdict")
	onlyTraces(t, dir)
}

// TestShutdownTellsOfUnfinishedStream ends a stream whose ET cannot be made, because a folder has its name.
func TestShutdownTellsOfUnfinishedStream(t *testing.T) {
	r := rigOf(t, base(t.TempDir(), control.Logs, control.TraceConfig{Name: "all", Mode: control.ModeStream, Providers: control.Logs, On: onAPI("all")}))
	trace := r.start(api("all"))
	must(t, os.Mkdir(trace.Path(), 0o700))
	if err := r.ctl.Shutdown(t.Context()); !errors.Is(err, format.ErrNotRegular) || trace.Verdict() != control.VerdictUnfinished {
		t.Errorf("Shutdown returned %v, and the verdict is %q", err, trace.Verdict())
	}
}

// TestStreamTimeout has a fake clock. A stream of a manual request without a timeout runs until it is
// stopped.
func TestStreamTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := rigOf(t, base(t.TempDir(), control.Logs, control.TraceConfig{
			Name: "s", Mode: control.ModeStream, Providers: control.Logs, On: onAPI("*"), Timeout: time.Minute,
		}))
		byHand, longer, wish := api("by hand"), api("longer"), api("wish")
		byHand.Manual, longer.Timeout = true, time.Hour // longer than the configuration allows
		wish.Manual, wish.Timeout = true, 2*time.Minute
		for _, q := range []control.Request{byHand, longer, wish, api("plain")} {
			r.start(q)
		}
		for _, step := range []struct {
			after   time.Duration
			running int
		}{{59 * time.Second, 4}, {2 * time.Second, 2}, {58 * time.Second, 2}, {2 * time.Second, 1}, {24 * time.Hour, 1}} {
			time.Sleep(step.after)
			synctest.Wait()
			expect.Equal(t, len(r.ctl.Running()), step.running, "streams run %v later", step.after)
		}
		if !r.stop(byHand) {
			t.Error("the stream that was asked for by hand has ended")
		}
		for _, trace := range r.wait(4) {
			w := everyLink(t, trace.Path())
			want := "timeout"
			if trace.Request.Key == "by hand" {
				want = "stopped"
			}
			expect.Equal(t, w.attr(w.one("trace end"), "end.reason"), want, "the stream %q ended for", trace.Request.Key)
		}
		r.quiet()
	})
}
