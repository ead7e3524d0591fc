package provider

import (
	"context"
	"runtime/metrics"
	"sync"
	"time"

	"github.com/entrace-go/entrace/control"
	"github.com/entrace-go/entrace/format"
)

// A processProvider provides statistics of the process from the operating system, and how the program
// was built.
type processProvider struct {
	mu sync.Mutex

	loop *loop // nil: not running
	tick *processTick
}

func (p *processProvider) provider() control.Provider {
	return control.Provider{Provides: control.Process, Start: p.start, Stop: p.stop, Dump: dumpBuild}
}

// start writes the entry "build" and begins to sample, for the parameter that the
// package's documentation lists. Counters begin here.
func (p *processProvider) start(s *control.Session) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.loop != nil {
		return errRunning
	}
	every, err := duration(s, "process.interval", time.Second, 100*time.Millisecond)
	if err != nil {
		return err
	}
	t := newProcessTick(s, newSystem("/"))
	if s.On&control.Process != 0 {
		t.err = s.Write(control.Process, format.SpanRef{}, t.last, buildEntry())
	}
	p.tick, p.loop = t, newLoop(s, every, t.run)
	return nil
}

// stop writes a last sample. It returns the first error of writing an
// entry, now or earlier.
func (p *processProvider) stop() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.loop == nil {
		return nil
	}
	ok := p.loop.stop()
	t := p.tick
	p.loop, p.tick = nil, nil
	if ok {
		t.run()
	}
	return t.err
}

// dumpBuild writes the entry "build": a snapshot may not reach back to the one that Start
// wrote, and a stream may begin after it.
func dumpBuild(_ context.Context, s *control.Session) error {
	if s.On&control.Process == 0 {
		return nil
	}
	return s.Write(control.Process, format.SpanRef{}, time.Now(), buildEntry())
}

// A statistic is one of those of a process.
type statistic int

// The statistics, in the order of their attributes.
const (
	userTime statistic = iota
	systemTime
	resident
	virtual
	peak
	swap
	threads
	openFiles
	majorFaults
	minorFaults
	voluntary
	involuntary
	bytesRead
	bytesWritten
	groupMemory
	groupLimit
	groupTime
	throttledTime
	throttledPeriods
	goMemory
	statistics
)

// statAttributes are the attributes of the statistics. A counter has its growth since the entry before, in units of
// which so many are one of its own.
var statAttributes = [statistics]struct {
	name    string
	counter bool
	unit    float64 // 0: a whole number
}{
	userTime:         {"process.cpu.time.user:seconds delta", true, 1e9},
	systemTime:       {"process.cpu.time.system:seconds delta", true, 1e9},
	resident:         {"process.memory.usage:bytes", false, 0},
	virtual:          {"process.memory.virtual:bytes", false, 0},
	peak:             {"process.memory.peak:bytes", false, 0},
	swap:             {"process.memory.swap:bytes", false, 0},
	threads:          {"process.thread.count:threads", false, 0},
	openFiles:        {"process.unix.file_descriptor.count:openFiles", false, 0},
	majorFaults:      {"process.paging.faults.major:faults delta", true, 0},
	minorFaults:      {"process.paging.faults.minor:faults delta", true, 0},
	voluntary:        {"process.context_switches.voluntary:switches delta", true, 0},
	involuntary:      {"process.context_switches.involuntary:switches delta", true, 0},
	bytesRead:        {"process.disk.io.read:bytes delta", true, 0},
	bytesWritten:     {"process.disk.io.write:bytes delta", true, 0},
	groupMemory:      {"container.memory.usage:bytes", false, 0},
	groupLimit:       {"container.memory.limit:bytes", false, 0},
	groupTime:        {"container.cpu.time:seconds delta", true, 1e6},
	throttledTime:    {"container.cpu.throttled.time:seconds delta", true, 1e6},
	throttledPeriods: {"container.cpu.throttled.periods:periods delta", true, 0},
	goMemory:         {"go.memory.used:bytes", false, 0},
}

// A usage holds the statistics of the process at a moment. Counters count since the process, or its
// cgroup, began.
type usage [statistics]maybe

// A processTick holds the state between two ticks. It is for one goroutine at a time.
type processTick struct {
	session *control.Session
	system  *system
	runtime []metrics.Sample
	last    time.Time
	before  usage
	entry   format.TraceEntry // used over and over
	err     error             // the first one
}

func newProcessTick(s *control.Session, system *system) *processTick {
	return &processTick{
		session: s,
		system:  system,
		runtime: []metrics.Sample{{Name: "/memory/classes/total:bytes"}, {Name: "/memory/classes/heap/released:bytes"}},
		last:    time.Now(),
		before:  system.usage(),
	}
}

func (t *processTick) run() {
	if t.session.On&control.Process == 0 {
		return
	}
	now, u := time.Now(), t.system.usage()
	u[goMemory] = t.used()
	e := &t.entry
	e.Metadata = format.Metadata{Name: "process", Target: target, Level: format.LevelTrace}
	a := append(e.Attributes[:0], u64(attrInterval, uint64(now.Sub(t.last))))
	for i, m := range u {
		attr, was := &statAttributes[i], t.before[i]
		if !m.ok || attr.counter && !was.ok {
			continue
		}
		n := m.n
		if attr.counter {
			n -= min(n, was.n) // it may go back
		}
		if attr.unit > 0 {
			a = append(a, float(attr.name, float64(n)/attr.unit))
		} else {
			a = append(a, u64(attr.name, n))
		}
	}
	e.Attributes = a
	t.last, t.before = now, u
	if err := t.session.Write(control.Process, format.SpanRef{}, now, e); err != nil && t.err == nil {
		t.err = err
	}
}

// used returns the memory that the runtime has of the operating system.
func (t *processTick) used() maybe {
	metrics.Read(t.runtime)
	total, released := t.runtime[0].Value, t.runtime[1].Value
	if total.Kind() != metrics.KindUint64 || released.Kind() != metrics.KindUint64 {
		return maybe{}
	}
	return maybe{total.Uint64() - min(total.Uint64(), released.Uint64()), true}
}
