package control

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/signal"
	"runtime/debug"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/entrace-go/entrace/format"
)

// logged is told of log records by the ring.
func (c *Control) logged(s *format.Seen) {
	c.Fire(Request{
		Trigger: TriggerLog, Key: s.Message, Reason: s.Level.String() + ": " + s.Message, Span: s.Span, Level: slogLevel(s.Level),
	})
}

// SpanEnded tells of a span that has ended. It is for the span processor, and costs
// an atomic load unless the span is slow. One for which the watchdog has fired
// fires no more.
func (c *Control) SpanEnded(name string, span format.SpanRef, took time.Duration) {
	if c == nil {
		return
	}
	f := c.force.Load()
	if f == nil || took <= f.slow {
		return
	}
	if told := c.watchdog.told.Load(); told != nil {
		if _, known := (*told)[span]; known { // one trace is enough for it
			c.verdicts.count(TriggerSpan, Coalesced)
			return
		}
	}
	c.Fire(Request{
		Trigger: TriggerSpan, Key: name, Span: span, Took: took, Reason: fmt.Sprintf("span %s took %v", name, took),
	})
}

// WantsLabels reports whether the goroutine of a span is to have the labels span_id
// and trace_id, by which profiles tell whose work it does: all spans while the
// processor is profiled, else those that begin a local trace, if a trace of the
// configuration looks at goroutines. It is for the span processor.
func (c *Control) WantsLabels(first bool) bool {
	if c == nil {
		return false
	}
	if first {
		if f := c.force.Load(); f != nil && f.dumps {
			return true
		}
	}
	return c.Enabled(CPUProfile)
}

// An OpenSpan is a span that has begun and not ended.
type OpenSpan struct {
	Name  string
	Span  format.SpanRef
	Start time.Time
}

// WatchSpans has the watchdog look at the spans that spans passes to fn: those that
// are open and began before a time, until fn returns false. It is for the span
// processor.
func (c *Control) WatchSpans(spans func(before time.Time, fn func(OpenSpan) bool)) {
	if c != nil {
		c.spans.Store(&spans)
	}
}

// A watchdog looks for spans that do not end.
type watchdog struct {
	mu sync.Mutex

	stop chan struct{}
	done chan struct{}

	told atomic.Pointer[map[format.SpanRef]time.Duration] // those that it fired for
}

// minWatch is how often the watchdog looks at most.
const minWatch = 20 * time.Millisecond

// follow has the watchdog go by f; nil ends it.
func (w *watchdog) follow(c *Control, f *inForce) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.stop != nil {
		close(w.stop)
		<-w.done
		w.stop = nil
	}
	if f == nil || f.stuck == never || c.closed.Load() {
		return
	}
	stop, done := make(chan struct{}), make(chan struct{})
	w.stop, w.done = stop, done
	go func() {
		defer close(done)
		tick := time.NewTicker(max(f.stuck/4, minWatch))
		defer tick.Stop()
		seen := make(map[format.SpanRef]time.Duration) // how long it was open then
		for {
			select {
			case <-stop:
				return
			case <-tick.C:
				seen = c.sweep(f, seen)
			}
		}
	}()
}

// maxStuck is how many spans are looked at in a sweep at most.
const maxStuck = 10_000

// sweep fires for the spans that are open for too long, once for each rule, and
// returns those it knows.
func (c *Control) sweep(f *inForce, seen map[format.SpanRef]time.Duration) map[format.SpanRef]time.Duration {
	spans := c.spans.Load()
	if spans == nil {
		return seen
	}
	now := time.Now()
	var stuck []OpenSpan
	(*spans)(now.Add(-f.stuck), func(s OpenSpan) bool {
		stuck = append(stuck, s)
		return len(stuck) < maxStuck
	})
	slices.SortFunc(stuck, func(a, b OpenSpan) int { return a.Start.Compare(b.Start) })
	known := make(map[format.SpanRef]time.Duration, len(stuck))
	told := make(map[format.SpanRef]time.Duration)
	fired := c.watchdog.told.Load()
	var fire []Request
	for _, s := range stuck {
		took, before := now.Sub(s.Start), seen[s.Span]
		known[s.Span] = took
		if fired != nil {
			if _, is := (*fired)[s.Span]; is {
				told[s.Span] = took
			}
		}
		for _, rule := range f.rules[TriggerWatchdog] {
			// Each rule once: when the span passes its bound.
			if took > rule.LongerThan && before <= rule.LongerThan && (rule.Key == "" || wildcard(rule.Key, s.Name)) {
				told[s.Span] = took
				fire = append(fire, Request{
					Trigger: TriggerWatchdog, Key: s.Name, Span: s.Span, Took: took,
					Name:   f.cfg.Traces[rule.trace].Name,
					Reason: fmt.Sprintf("span %s is open for %v", s.Name, took.Round(time.Millisecond)),
				})
			}
		}
	}
	if fired != nil {
		for span, took := range *fired {
			if _, open := known[span]; !open && took > 0 {
				told[span] = 0 // its end may not have been told yet
			}
		}
	}
	c.watchdog.told.Store(&told)
	for _, r := range fire {
		c.Fire(r)
	}
	return known
}

// signals are those that ask for traces.
type signals struct {
	mu sync.Mutex

	names []string
	ch    chan os.Signal
	done  chan struct{}
}

// follow has told called with the names of these signals; none ends it.
func (s *signals) follow(names []string, told func(name string)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if slices.Equal(names, s.names) {
		return
	}
	if s.ch != nil {
		signal.Stop(s.ch)
		close(s.ch)
		<-s.done
		s.ch = nil
	}
	s.names = slices.Clone(names)
	by := make(map[string]string) // the signal's own name to ours
	var list []os.Signal
	for _, name := range names {
		if sig, ok := signalNamed(name); ok {
			by[sig.String()] = name
			list = append(list, sig)
		}
	}
	if len(list) == 0 {
		return
	}
	ch, done := make(chan os.Signal, 16), make(chan struct{})
	s.ch, s.done = ch, done
	signal.Notify(ch, list...)
	go func() {
		defer close(done)
		for sig := range ch {
			told(by[sig.String()])
		}
	}()
}

func (c *Control) onSignal(name string) {
	c.Fire(Request{Trigger: TriggerSignal, Key: name, Reason: "signal " + name, Manual: true})
}

// panicTime is how long a panic waits for its trace.
const panicTime = 2 * time.Second

// CapturePanic is to be deferred where a goroutine begins: a panic is recorded, with
// its stack, becomes a request, and goes on when the trace is there, or after 2 s.
// That of [http.ErrAbortHandler] is none.
func (c *Control) CapturePanic() {
	if c == nil {
		return // the panic goes on by itself
	}
	p := recover()
	if p == nil {
		return
	}
	if err, ok := p.(error); !ok || !errors.Is(err, http.ErrAbortHandler) {
		c.panicked(p, debug.Stack())
	}
	panic(p)
}

// panicked must not panic itself.
func (c *Control) panicked(p any, stack []byte) {
	defer func() { _ = recover() }()
	text := panicText(p)
	now := time.Now()
	e := &format.TraceEntry{
		Message:  format.Some("panic: " + cut(text)),
		Metadata: format.Metadata{Name: "event panic", Target: target, Level: format.LevelError},
		Attributes: []format.Attribute{
			{Name: format.AttrTime, Value: format.TimeValue(now)},
			{Name: "exception.message", Value: format.StringValue(cut(text))},
			{Name: "exception.stacktrace", Value: format.StringValue(format.Cut(string(stack), maxStack))},
		},
	}
	b := c.ring.Recorder().Batch()
	b.Entry(e)
	b.From(format.ProviderLogs) // it is no request of its own
	b.Log(format.SpanRef{}, now.UnixNano())
	_ = b.Write() // kept and counted
	ctx, cancel := context.WithTimeout(context.Background(), panicTime)
	defer cancel()
	_, _ = c.Start(ctx, Request{Trigger: TriggerPanic, Key: text, Reason: "panic: " + text}) // which is counted, and reported
}

const maxStack = 32 << 10

// panicText returns what panicked, whose methods may panic themselves.
func panicText(p any) (s string) {
	defer func() {
		if recover() != nil {
			s = fmt.Sprintf("%T", p)
		}
	}()
	return fmt.Sprint(p)
}
