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
	if s.On()&control.Process != 0 {
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
	if s.On()&control.Process == 0 {
		return nil
	}
	return s.Write(control.Process, format.SpanRef{}, time.Now(), buildEntry())
}

// A usage holds the statistics of the process at a moment. Counters count since the process, or its
// cgroup, began.
type usage struct {
	user, system         maybe // nanoseconds of processor time
	major, minor         maybe // page faults
	voluntary, forced    maybe // context switches
	read, written        maybe // bytes from and to the disk
	threads, files       maybe
	resident, virtual    maybe // bytes
	peak, swap           maybe // bytes
	group, limit         maybe // bytes of memory of the cgroup
	cpu, throttled, held maybe // of the cgroup: microseconds, of them kept waiting, and periods in which it was
}

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
	if t.session.On()&control.Process == 0 {
		return
	}
	now, u, was := time.Now(), t.system.usage(), &t.before
	e := &t.entry
	e.Metadata = format.Metadata{Name: "process", Target: target, Level: format.LevelTrace}
	a := append(e.Attributes[:0], u64(attrInterval, uint64(now.Sub(t.last))))

	a = seconds(a, "process.cpu.time.user:seconds delta", u.user, was.user, 1e9)
	a = seconds(a, "process.cpu.time.system:seconds delta", u.system, was.system, 1e9)
	a = gauge(a, "process.memory.usage:bytes", u.resident)
	a = gauge(a, "process.memory.virtual:bytes", u.virtual)
	a = gauge(a, "process.memory.peak:bytes", u.peak)
	a = gauge(a, "process.memory.swap:bytes", u.swap)
	a = gauge(a, "process.thread.count:threads", u.threads)
	a = gauge(a, "process.unix.file_descriptor.count:files", u.files)
	a = delta(a, "process.paging.faults.major:faults delta", u.major, was.major)
	a = delta(a, "process.paging.faults.minor:faults delta", u.minor, was.minor)
	a = delta(a, "process.context_switches.voluntary:switches delta", u.voluntary, was.voluntary)
	a = delta(a, "process.context_switches.involuntary:switches delta", u.forced, was.forced)
	a = delta(a, "process.disk.io.read:bytes delta", u.read, was.read)
	a = delta(a, "process.disk.io.write:bytes delta", u.written, was.written)
	a = gauge(a, "container.memory.usage:bytes", u.group)
	a = gauge(a, "container.memory.limit:bytes", u.limit)
	a = seconds(a, "container.cpu.time:seconds delta", u.cpu, was.cpu, 1e6)
	a = seconds(a, "container.cpu.throttled.time:seconds delta", u.throttled, was.throttled, 1e6)
	a = delta(a, "container.cpu.throttled.periods:periods delta", u.held, was.held)
	a = gauge(a, "go.memory.used:bytes", t.used())

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

func gauge(a []format.Attribute, name string, m maybe) []format.Attribute {
	if !m.ok {
		return a
	}
	return append(a, u64(name, m.n))
}

func delta(a []format.Attribute, name string, m, was maybe) []format.Attribute {
	if !m.ok || !was.ok {
		return a
	}
	return append(a, u64(name, m.n-min(m.n, was.n)))
}

// seconds is delta for a time of which so many units are a second.
func seconds(a []format.Attribute, name string, m, was maybe, unit float64) []format.Attribute {
	if !m.ok || !was.ok {
		return a
	}
	return append(a, float(name, float64(m.n-min(m.n, was.n))/unit))
}
