package provider

import (
	"context"
	"runtime/pprof"
	"strings"
	"testing"
	"time"

	"github.com/entrace-go/entrace/control"
	"github.com/entrace-go/entrace/format"
	"github.com/entrace-go/entrace/internal/testkit/expect"
)

var sink uint64

//go:noinline
func busyHere(d time.Duration) {
	for end := time.Now().Add(d); time.Now().Before(end); {
		for i := range uint64(1_000_000) {
			sink += i * i
		}
	}
}

// busy uses CPU time, with the labels of a span, until done returns true.
func busy(t *testing.T, done func() bool) {
	t.Helper()
	labels := pprof.Labels("trace_id", testTrace, "span_id", testSpan, "route", "/a")
	pprof.Do(t.Context(), labels, func(context.Context) {
		for range 200 {
			busyHere(200 * time.Millisecond)
			if done() {
				return
			}
		}
	})
}

func TestCPUProfile(t *testing.T) {
	r, c := &record{}, &cpuProfile{}
	before := time.Now()
	must(t, c.start(r.session(control.CPUProfile, nil)))
	find := func(after time.Time) *written {
		for _, e := range r.named("cpu.profile") {
			if e.ref == testRef && !e.at.Before(after) && strings.Contains(e.text(t, "stack"), "busyHere") {
				return &e
			}
		}
		return nil
	}
	// On a busy machine, the first parts may have no sample of this function.
	busy(t, func() bool {
		must(t, c.flush())
		return find(before) != nil
	})
	e := find(before)
	if e == nil {
		t.Fatalf("no sample below the span in %d entries", len(r.entries))
	}
	if e.p != control.CPUProfile || e.text(t, "label.route") != "/a" || e.has("label.span_id") || e.Metadata.Level != format.LevelDebug {
		t.Errorf("entry %+v of %v", e.TraceEntry, e.p)
	}
	if n, ns, window := e.u64(t, "samples"), e.u64(t, "cpu_nano"), e.u64(t, "window_nano"); n == 0 || ns != n*10_000_000 || window < 2e8 {
		t.Errorf("%d samples are %d ns in %d ns", n, ns, window)
	}
	lines := strings.Split(e.text(t, "stack"), "\n")
	if !strings.HasPrefix(lines[0], e.Message.Value+" ") {
		t.Errorf("message %q, want the function of %q", e.Message.Value, lines[0])
	}

	// Samples after the flush belong to the next part, which Stop writes.
	for range 100 {
		told := len(r.named("cpu.profile"))
		busy(t, func() bool { return true })
		must(t, c.stop())
		if len(r.named("cpu.profile")) > told {
			return
		}
		must(t, c.start(r.session(control.CPUProfile, nil)))
	}
	must(t, c.stop())
	t.Error("Stop writes nothing")
}

func TestCPUProfileInUse(t *testing.T) {
	other := &cpuRecording{w: limited{most: maxProfileBytes}}
	must(t, pprof.StartCPUProfile(other))
	r, c := &record{}, &cpuProfile{}
	expect.Says(t, c.start(r.session(control.CPUProfile, nil)), "already in use", "Start")
	must(t, c.stop())
	must(t, c.flush())
	if other.ended() {
		t.Error("the other profile was stopped")
	}
	pprof.StopCPUProfile()
	must(t, c.start(r.session(control.CPUProfile, nil)))
	must(t, c.stop())
}

// TestCPUProfileTaken stops the provider's profile and starts another profile. The provider must not stop the other
// profile.
func TestCPUProfileTaken(t *testing.T) {
	for name, end := range map[string]func(*cpuProfile) error{"Stop": (*cpuProfile).stop, "Flush": (*cpuProfile).flush} {
		t.Run(name, func(t *testing.T) {
			r, c := &record{}, &cpuProfile{}
			must(t, c.start(r.session(control.CPUProfile, nil)))
			pprof.StopCPUProfile()
			other := &cpuRecording{w: limited{most: maxProfileBytes}}
			must(t, pprof.StartCPUProfile(other))
			err := end(c)
			expect.Says(t, err, "other code of the program stopped", "%s", name)
			if name == "Flush" && !strings.Contains(err.Error(), "already in use") {
				t.Errorf("%s gives %v, want already in use", name, err)
			}
			must(t, c.flush())
			must(t, c.stop())
			if other.ended() {
				t.Error("the other profile was stopped")
			}
			pprof.StopCPUProfile()
		})
	}
}

// TestCPUProfileParts waits until the loop has written three parts. It has a real clock: under synctest, no
// time would pass while the runtime collects samples.
func TestCPUProfileParts(t *testing.T) {
	r, c := &record{}, &cpuProfile{every: 20 * time.Millisecond}
	before := time.Now()
	must(t, c.start(r.session(control.CPUProfile, nil)))
	parts := make(map[time.Time]bool)
	busy(t, func() bool {
		for _, e := range r.named("cpu.profile") {
			parts[e.at] = true
			if e.at.Before(before) || e.at.After(time.Now()) {
				t.Errorf("a part began at %v", e.at)
			}
		}
		return len(parts) >= 3
	})
	must(t, c.stop())
	if len(parts) < 3 {
		t.Errorf("%d parts, want 3", len(parts))
	}
}
