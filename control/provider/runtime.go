package provider

import (
	"runtime/debug"
	"sync"
	"time"

	"github.com/entrace-go/entrace/control"
	"github.com/entrace-go/entrace/format"
)

// A runtimeProvider provides runtime.metrics, gc and sched. It reads package runtime/metrics once a tick
// for all three.
type runtimeProvider struct {
	mu sync.Mutex

	loop *loop // nil: not running
	tick *runtimeTick
}

func (r *runtimeProvider) provider() control.Provider {
	return control.Provider{Provides: control.RuntimeMetrics | control.GC | control.Sched, Start: r.start, Stop: r.stop}
}

// start begins to sample, for the parameters that the package's documentation
// lists. Counters begin here.
func (r *runtimeProvider) start(s *control.Session) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.loop != nil {
		return errRunning
	}
	every, err := duration(s, "runtime.metrics.interval", time.Second, 10*time.Millisecond)
	if err != nil {
		return err
	}
	t, err := newRuntimeTick(s)
	if err != nil {
		return err
	}
	r.tick, r.loop = t, newLoop(s, every, t.run)
	return nil
}

// stop writes a last sample. It returns the first error of writing one, now
// or earlier.
func (r *runtimeProvider) stop() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.loop == nil {
		return nil
	}
	ok := r.loop.stop()
	t := r.tick
	r.loop, r.tick = nil, nil
	if ok {
		t.run()
	}
	return t.err
}

// A runtimeTick holds the state between two ticks. It is for one goroutine at a time.
type runtimeTick struct {
	session *control.Session
	sampler *sampler
	last    time.Time
	entry   format.TraceEntry // used over and over
	err     error             // the first one

	gc     debug.GCStats
	cycles int64 // the last one that has an entry
}

func newRuntimeTick(s *control.Session) (*runtimeTick, error) {
	on := s.On
	sampler, err := newSampler(on, s.Params["runtime.metrics.samples"])
	if err != nil {
		return nil, err
	}
	t := &runtimeTick{session: s, sampler: sampler}
	if on&control.GC != 0 {
		debug.ReadGCStats(&t.gc)
		t.cycles = t.gc.NumGC
	}
	sampler.read()
	t.last = time.Now()
	return t, nil
}

// run reads everything and writes the entries.
func (t *runtimeTick) run() {
	t.sampler.read()
	now := time.Now()
	interval := now.Sub(t.last)
	t.last = now
	on := t.session.On
	t.sample(control.RuntimeMetrics&on, "runtime.metrics", now, interval)
	t.sample(control.Sched&on, "sched", now, interval)
	// Last, since its entries are older than the others anyway.
	if on&control.GC != 0 {
		t.collections()
	}
}

func (t *runtimeTick) sample(p control.Set, name string, at time.Time, interval time.Duration) {
	if p == 0 {
		return
	}
	e := t.begin(name, "runtime/metrics")
	e.Attributes = append(e.Attributes, u64(attrInterval, uint64(interval)))
	e.Attributes = t.sampler.append(e.Attributes, p)
	t.write(p, at)
}

// collections writes an entry for each cycle since the last call.
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
		e := t.begin("gc", "runtime/debug")
		e.Attributes = append(e.Attributes, u64(format.AttrDuration, uint64(t.gc.Pause[i])), u64("gc.cycle", cycle))
		// The size after the other cycles is not known any more.
		if cycle == cycles {
			e.Attributes = append(e.Attributes, u64(metricLive, t.sampler.count(metricLive)))
		}
		if i == known-1 && count > known {
			e.Attributes = append(e.Attributes, u64("gc.missed", uint64(count-known)))
		}
		t.write(control.GC, t.gc.PauseEnd[i].Add(-t.gc.Pause[i]))
	}
}

func (t *runtimeTick) begin(name, target string) *format.TraceEntry {
	e := &t.entry
	e.Metadata = format.Metadata{Name: name, Target: target, Level: format.LevelTrace}
	e.Attributes = e.Attributes[:0]
	return e
}

func (t *runtimeTick) write(p control.Set, at time.Time) {
	if err := t.session.Write(p, format.SpanRef{}, at, &t.entry); err != nil && t.err == nil {
		t.err = err
	}
}
