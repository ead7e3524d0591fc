package provider

import (
	"runtime/debug"
	"time"

	"github.com/entrace-go/entrace/control"
	"github.com/entrace-go/entrace/format"
)

// newRuntimeProvider returns the provider of runtime.metrics, gc and sched. Each tick reads the metrics for
// all three at once.
func newRuntimeProvider() *tickProvider {
	return &tickProvider{
		of:       control.Provider{Provides: control.RuntimeMetrics | control.GC | control.Sched},
		interval: "runtime.metrics.interval", least: 10 * time.Millisecond,
		begin: func(s *control.Session) (ticker, error) { return newRuntimeTick(s) },
	}
}

// A runtimeTick is the state between two ticks. Only one goroutine at a time may use it.
type runtimeTick struct {
	samples

	sampler *sampler
	gc      debug.GCStats
	cycles  int64 // number of the last cycle that has an entry
}

func newRuntimeTick(s *control.Session) (*runtimeTick, error) {
	on := s.On
	sampler, err := newSampler(on, s.Params["runtime.metrics.samples"])
	if err != nil {
		return nil, err
	}
	t := &runtimeTick{samples: samples{session: s}, sampler: sampler}
	if on&control.GC != 0 {
		debug.ReadGCStats(&t.gc)
		t.cycles = t.gc.NumGC
	}
	sampler.read()
	t.last = time.Now()
	return t, nil
}

// run reads the metrics and writes the entries.
func (t *runtimeTick) run() {
	t.sampler.read()
	now := time.Now()
	interval := now.Sub(t.last)
	t.last = now
	on := t.session.On
	t.sample(control.RuntimeMetrics&on, "runtime.metrics", now, interval)
	t.sample(control.Sched&on, "sched", now, interval)
	// Last, because these entries have earlier times than the other entries.
	if on&control.GC != 0 {
		t.collections()
	}
}

func (t *runtimeTick) sample(p control.Set, name string, at time.Time, interval time.Duration) {
	if p == 0 {
		return
	}
	e := t.entryOf(name, "runtime/metrics")
	e.Attributes = append(e.Attributes, u64(attrInterval, uint64(interval)))
	e.Attributes = t.sampler.append(e.Attributes, p)
	t.write(p, at)
}

// collections writes an entry for each garbage collection since the last call.
func (t *runtimeTick) collections() {
	cycles := t.sampler.count(metricCycles)
	if cycles == uint64(t.cycles) {
		return
	}
	debug.ReadGCStats(&t.gc)
	count := t.gc.NumGC - t.cycles
	known := min(count, int64(len(t.gc.Pause)), int64(len(t.gc.PauseEnd)))
	t.cycles = t.gc.NumGC
	for i := known - 1; i >= 0; i-- {
		cycle := uint64(t.gc.NumGC - i)
		e := t.entryOf("gc", "runtime/debug")
		e.Attributes = append(e.Attributes, u64(format.AttrDuration, uint64(t.gc.Pause[i])), u64("gc.cycle", cycle))
		// The live heap is known only for the last cycle.
		if cycle == cycles {
			e.Attributes = append(e.Attributes, u64(metricLive, t.sampler.count(metricLive)))
		}
		if i == known-1 && count > known {
			e.Attributes = append(e.Attributes, u64("gc.missed", uint64(count-known)))
		}
		t.write(control.GC, t.gc.PauseEnd[i].Add(-t.gc.Pause[i]))
	}
}
