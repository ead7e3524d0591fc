package provider

import (
	"math"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"strings"
	"testing"
	"time"

	"github.com/entrace-go/entrace/control"
	"github.com/entrace-go/entrace/format"
	"github.com/entrace-go/entrace/internal/testkit/expect"
	"github.com/entrace-go/entrace/internal/testkit/hosttest"
)

func TestDefaultMetrics(t *testing.T) {
	s, err := newSampler(control.RuntimeMetrics, "")
	must(t, err)
	expect.Equal(t, len(s.samples), 20, "metrics that runtime.metrics reads")
	s.read()
	runtime.GC()
	s.read()
	for i, m := range s.metrics {
		if len(m.attrs) == 0 {
			t.Errorf("%s: no attributes", s.samples[i].Name)
		}
		if d := strings.HasSuffix(m.attrs[0].Name, " delta"); d != m.cumulative {
			t.Errorf("%s is called %q", s.samples[i].Name, m.attrs[0].Name)
		}
	}
}

func TestRuntimeEntries(t *testing.T) {
	r, p := &record{}, newRuntimeProvider()
	must(t, p.start(r.session(p.provider().Provides, map[string]string{"runtime.metrics.interval": "1h"})))
	for range 3 {
		runtime.GC()
	}
	must(t, p.stop())

	sample := r.named("runtime.metrics")[0]
	if got := sample.u64(t, "/gc/cycles/total:gc-cycles delta"); got < 3 {
		t.Errorf("%d cycles, want 3", got)
	}
	if got := sample.u64(t, "/sched/goroutines:goroutines"); got < 1 || got > 10_000 {
		t.Errorf("%d goroutines", got)
	}
	if sample.p != control.RuntimeMetrics || sample.Message.Valid || sample.Metadata.Target != "runtime/metrics" {
		t.Errorf("a sample is %+v of %v", sample.TraceEntry, sample.p)
	}
	pauses := sample.u64(t, "/sched/pauses/total/gc:seconds count delta")
	if pauses < 6 || !sample.has("/sched/pauses/total/gc:seconds p99") || !sample.has("/sched/pauses/total/gc:seconds max") {
		t.Errorf("%d pauses of 3 collections: %+v", pauses, sample.Attributes)
	}

	sched := r.named("sched")[0]
	for _, name := range []string{"/sched/goroutines/running:goroutines", "/sched/goroutines:goroutines", "/sched/latencies:seconds count delta", "/sync/mutex/wait/total:seconds delta"} {
		if !sched.has(name) {
			t.Errorf("sched has no %s", name)
		}
	}
	if sched.p != control.Sched || sched.has(metricLive) {
		t.Errorf("sched has %+v", sched.Attributes)
	}
}

func TestSamplesParam(t *testing.T) {
	r, p := &record{}, newRuntimeProvider()
	must(t, p.start(r.session(control.RuntimeMetrics, map[string]string{
		"runtime.metrics.samples": " /gc/heap/live:bytes,/gc/heap/live:bytes, /cpu/classes/idle:cpu-seconds",
	})))
	must(t, p.stop())
	expect.MustEqual(t, len(r.entries), 1, "entries")
	var names []string
	for _, a := range r.entries[0].Attributes {
		names = append(names, a.Name)
	}
	want := "interval_nano|/gc/heap/live:bytes|/cpu/classes/idle:cpu-seconds delta"
	expect.Equal(t, strings.Join(names, "|"), want, "attributes")
}

// TestGCPauses checks that the entries gc have the numbers of debug.ReadGCStats, and that there are no entries for
// collections before Start.
func TestGCPauses(t *testing.T) {
	defer debug.SetGCPercent(debug.SetGCPercent(-1))
	runtime.GC()
	r, p := &record{}, newRuntimeProvider()
	must(t, p.start(r.session(control.GC, map[string]string{"runtime.metrics.interval": "10ms"})))
	const cycles = 5
	for range cycles {
		runtime.GC()
		time.Sleep(4 * time.Millisecond)
	}
	must(t, p.stop())
	var stats debug.GCStats
	debug.ReadGCStats(&stats)
	got := r.named("gc")
	if len(got) != cycles || len(r.entries) != cycles {
		t.Fatalf("%d entries of %d collections", len(got), cycles)
	}
	for i, e := range got {
		back := cycles - 1 - i
		if n := e.u64(t, "gc.cycle"); n != uint64(stats.NumGC)-uint64(back) {
			t.Errorf("entry %d is of cycle %d, want %d", i, n, stats.NumGC-int64(back))
		}
		expect.Equal(t, time.Duration(e.u64(t, format.AttrDuration)), stats.Pause[back], "entry %d took", i)
		if want := stats.PauseEnd[back].Add(-stats.Pause[back]); !e.at.Equal(want) {
			t.Errorf("entry %d is at %v, want %v", i, e.at, want)
		}
		if e.p != control.GC || e.has("gc.missed") {
			t.Errorf("entry %d: %+v", i, e.TraceEntry)
		}
	}
	if !got[cycles-1].has(metricLive) {
		t.Error("the last entry does not say what is live")
	}
}

func TestGCMissed(t *testing.T) {
	if testing.Short() {
		t.Skip("it collects 260 times")
	}
	defer debug.SetGCPercent(debug.SetGCPercent(-1))
	r := &record{}
	tick, err := newRuntimeTick(r.session(control.GC, nil))
	must(t, err)
	const cycles = 260
	for range cycles {
		runtime.GC()
	}
	tick.run()
	got := r.named("gc")
	expect.MustEqual(t, len(got), 256, "entries")
	if n := got[0].u64(t, "gc.missed"); n != cycles-256 || got[1].has("gc.missed") {
		t.Errorf("%d missed, want %d, told once", n, cycles-256)
	}
	tick.run()
	if again := len(r.named("gc")); again != 256 {
		t.Errorf("the next tick tells of %d more", again-256)
	}
}

func TestTickAllocatesNothing(t *testing.T) {
	s := control.NewSession(newRuntimeProvider().provider().Provides, nil, func(control.Set, format.SpanRef, time.Time, *format.TraceEntry) error { return nil })
	tick, err := newRuntimeTick(s)
	must(t, err)
	tick.run() // allocates the buffers
	expect.Equal(t, hosttest.Allocations(100, tick.sampler.read), 0, "times that a read allocates")
	expect.Equal(t, hosttest.Allocations(100, tick.run), 0, "times that a tick allocates")
	expect.Equal(t, hosttest.Allocations(10, func() { runtime.GC(); tick.run() }), 0, "times that a tick after a collection allocates")
}

func TestHistogram(t *testing.T) {
	inf := math.Inf(1)
	buckets := []float64{-inf, 1, 2, 4, inf}
	tests := []struct {
		name          string
		buckets       []float64
		before, now   []uint64
		count         uint64
		p50, p99, max float64
	}{
		{"none", buckets, []uint64{1, 2, 3, 4}, []uint64{1, 2, 3, 4}, 0, 0, 0, 0},
		{"one", buckets, []uint64{0, 5, 0, 0}, []uint64{0, 6, 0, 0}, 1, 2, 2, 2},
		{"first is open", buckets, []uint64{0, 0, 0, 0}, []uint64{3, 0, 0, 0}, 3, 1, 1, 1},
		{"last is open", buckets, []uint64{0, 0, 0, 0}, []uint64{0, 0, 0, 3}, 3, 4, 4, 4},
		{"both are open", []float64{-inf, inf}, []uint64{0}, []uint64{3}, 3, 0, 0, 0},
		{"half", buckets, []uint64{0, 0, 0, 0}, []uint64{0, 50, 50, 0}, 100, 2, 4, 4},
		{"p99 is below max", buckets, []uint64{0, 0, 0, 0}, []uint64{99, 0, 1, 0}, 100, 1, 1, 4},
		{"one goes back", buckets, []uint64{9, 0, 0, 0}, []uint64{8, 2, 0, 0}, 2, 2, 2, 2},
		{"other buckets", buckets, []uint64{1, 2}, []uint64{2, 3, 4, 5}, 0, 0, 0, 0},
		{"no buckets", nil, nil, nil, 0, 0, 0, 0},
		{"too few bounds", []float64{1, 2}, []uint64{1, 2}, []uint64{2, 3}, 0, 0, 0, 0},
		{"many", buckets, []uint64{0, 0, 0, 0}, []uint64{0, math.MaxUint64 / 2, 0, 1}, math.MaxUint64/2 + 1, 2, 2, 4},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			h := &histogram{seen: tt.before}
			h.update(&metrics.Float64Histogram{Counts: tt.now, Buckets: tt.buckets})
			if h.count != tt.count || h.p50 != tt.p50 || h.p99 != tt.p99 || h.max != tt.max {
				t.Errorf("count %d, p50 %v, p99 %v, max %v, want %d, %v, %v, %v", h.count, h.p50, h.p99, h.max, tt.count, tt.p50, tt.p99, tt.max)
			}
		})
	}
}
