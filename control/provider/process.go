package provider

import (
	"runtime/metrics"
	"time"

	"github.com/entrace-go/entrace/control"
)

// newProcessProvider returns the provider of the operating system's statistics about the process.
func newProcessProvider() *tickProvider {
	return &tickProvider{
		of:       control.Provider{Provides: control.Process},
		interval: "process.interval", least: 100 * time.Millisecond,
		begin: func(s *control.Session) (ticker, error) { return newProcessTick(s, newSystem("/")), nil },
	}
}

// A statistic is the index of a statistic of the process.
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

// statAttributes has the attribute of each statistic. The value of a counter is its growth since the
// previous entry. If unit is not 0, the number of the system is divided by unit.
var statAttributes = [statistics]struct {
	name    string
	counter bool
	unit    float64 // 0: an integer without a unit
}{
	userTime:         {"process.cpu.time.user:seconds delta", true, 1e9},
	systemTime:       {"process.cpu.time.system:seconds delta", true, 1e9},
	resident:         {"process.memory.usage:bytes", false, 0},
	virtual:          {"process.memory.virtual:bytes", false, 0},
	peak:             {"process.memory.peak:bytes", false, 0},
	swap:             {"process.memory.swap:bytes", false, 0},
	threads:          {"process.thread.count:threads", false, 0},
	openFiles:        {"process.unix.file_descriptor.count:files", false, 0},
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

// A usage holds the statistics at one moment. Counters have the sum since the start of the process or of
// its cgroup.
type usage [statistics]maybe

// A processTick holds the state between two ticks. Only one goroutine at a time may use it.
type processTick struct {
	samples

	system  *system
	runtime []metrics.Sample
	before  usage
}

func newProcessTick(s *control.Session, system *system) *processTick {
	return &processTick{
		samples: samples{session: s, last: time.Now()},
		system:  system,
		runtime: []metrics.Sample{{Name: "/memory/classes/total:bytes"}, {Name: "/memory/classes/heap/released:bytes"}},
		before:  system.usage(),
	}
}

func (t *processTick) run() {
	if t.session.On&control.Process == 0 {
		return
	}
	now, u := time.Now(), t.system.usage()
	u[goMemory] = t.used()
	e := t.entryOf("process", target)
	a := append(e.Attributes, u64(attrInterval, uint64(now.Sub(t.last))))
	for i, m := range u {
		attr, was := &statAttributes[i], t.before[i]
		if !m.ok || attr.counter && !was.ok {
			continue
		}
		n := m.n
		if attr.counter {
			n -= min(n, was.n) // the kernel may report a smaller number than before
		}
		if attr.unit > 0 {
			a = append(a, float(attr.name, float64(n)/attr.unit))
		} else {
			a = append(a, u64(attr.name, n))
		}
	}
	e.Attributes = a
	t.last, t.before = now, u
	t.write(control.Process, now)
}

// used returns the number of bytes that the runtime has got from the operating system and not returned.
func (t *processTick) used() maybe {
	metrics.Read(t.runtime)
	total, released := t.runtime[0].Value, t.runtime[1].Value
	if total.Kind() != metrics.KindUint64 || released.Kind() != metrics.KindUint64 {
		return maybe{}
	}
	return maybe{total.Uint64() - min(total.Uint64(), released.Uint64()), true}
}
