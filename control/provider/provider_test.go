package provider

import (
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/entrace-go/entrace/control"
	"github.com/entrace-go/entrace/internal/testkit/expect"
)

func TestAll(t *testing.T) {
	var have control.Set
	for _, m := range All() {
		if have&m.Provides != 0 {
			t.Errorf("%v is provided twice", have&m.Provides)
		}
		have |= m.Provides
	}
	want := control.RuntimeMetrics | control.GC | control.Sched | control.Goroutines | control.CPUProfile | control.ExecTrace | control.Process
	expect.Equal(t, have, want, "All provides")
}

func TestLifecycle(t *testing.T) {
	for _, p := range All() {
		if p.Start == nil {
			continue
		}
		t.Run(p.Provides.String(), func(t *testing.T) {
			r := &record{}
			must(t, p.Stop())
			for range 2 {
				s := r.session(p.Provides, nil)
				must(t, p.Start(s))
				expect.Is(t, p.Start(s), errRunning, "the second Start")
				must(t, p.Stop())
				must(t, p.Stop())
			}
		})
	}
}

func TestBadParams(t *testing.T) {
	tests := []struct {
		p           control.Provider
		name, value string
		want        string
	}{
		{newRuntimeProvider().provider(), "runtime.metrics.interval", "soon", "runtime.metrics.interval"},
		{newRuntimeProvider().provider(), "runtime.metrics.samples", "/gc/heap/live:bytes,/no/such:thing", `"/no/such:thing"`},
		{newRuntimeProvider().provider(), "runtime.metrics.samples", "/gc/heap/live:bytes,", `unknown metric ""`},
		{newProcessProvider().provider(), "process.interval", "1", "process.interval"},
		{new(execTrace).provider(), "exec.trace.min_age", "x", "exec.trace.min_age"},
		{new(execTrace).provider(), "exec.trace.max_bytes", "1e9", "exec.trace.max_bytes"},
	}
	for _, tt := range tests {
		t.Run(tt.name+"="+tt.value, func(t *testing.T) {
			r := &record{}
			err := tt.p.Start(r.session(tt.p.Provides, map[string]string{tt.name: tt.value}))
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("Start gives %v, want it to name %s", err, tt.want)
			}
			must(t, tt.p.Stop())
			// After the error, the provider can start.
			must(t, tt.p.Start(r.session(tt.p.Provides, nil)))
			must(t, tt.p.Stop())
		})
	}
}

// TestTicks checks the number of samples: one for each interval, and one at the end.
func TestTicks(t *testing.T) {
	tests := []struct {
		p      control.Provider
		params map[string]string
		run    time.Duration
		want   map[string]int
	}{
		{newRuntimeProvider().provider(), nil, 3500 * time.Millisecond, map[string]int{"runtime.metrics": 4, "sched": 4}},
		{newRuntimeProvider().provider(), map[string]string{"runtime.metrics.interval": "1ns"}, 35 * time.Millisecond, map[string]int{"runtime.metrics": 4, "sched": 4}},
		{newProcessProvider().provider(), nil, 3500 * time.Millisecond, map[string]int{"process": 4}},
		{newProcessProvider().provider(), map[string]string{"process.interval": "-1h"}, 350 * time.Millisecond, map[string]int{"process": 4}},
		{newProcessProvider().provider(), map[string]string{"process.interval": "2s"}, 5 * time.Second, map[string]int{"process": 3}},
	}
	for _, tt := range tests {
		synctest.Test(t, func(t *testing.T) {
			r := &record{}
			must(t, tt.p.Start(r.session(tt.p.Provides, tt.params)))
			began := time.Now()
			time.Sleep(tt.run)
			must(t, tt.p.Stop())
			for name, want := range tt.want {
				entries := r.named(name)
				expect.Equal(t, len(entries), want, "%v: entries %q", tt.params, name)
				var sum time.Duration
				for _, e := range entries {
					if e.has(attrInterval) {
						sum += time.Duration(e.u64(t, attrInterval))
					}
				}
				if last := entries[len(entries)-1]; sum != tt.run || !last.at.Equal(began.Add(tt.run)) {
					t.Errorf("%v: the intervals of %q are %v together and the last is at %v, want %v", tt.params, name, sum, last.at, tt.run)
				}
			}
		})
	}
}

// TestWriteError checks that Stop returns the error of an earlier write.
func TestWriteError(t *testing.T) {
	gone := errors.New("gone")
	for _, p := range []control.Provider{newRuntimeProvider().provider(), newProcessProvider().provider()} {
		synctest.Test(t, func(t *testing.T) {
			r := &record{err: gone}
			must(t, p.Start(r.session(p.Provides, nil)))
			time.Sleep(1500 * time.Millisecond)
			r.mu.Lock()
			r.err = nil
			r.mu.Unlock()
			expect.Is(t, p.Stop(), gone, "%v: Stop", p.Provides)
			must(t, p.Start(r.session(p.Provides, nil)))
			must(t, p.Stop())
		})
	}
}

// TestLoopPanic checks that a panic in a tick does not end the program.
func TestLoopPanic(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ticks := 0
		l := newLoop((&record{}).session(0, nil), time.Second, func() {
			ticks++
			panic("no")
		})
		time.Sleep(5 * time.Second)
		if l.stop() || ticks != 1 {
			t.Errorf("stop reports no panic, or there were %d ticks, want 1", ticks)
		}
	})
}
