package control

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"os"
	"os/signal"
	"runtime/debug"
	"slices"
	"sync"
	"time"

	"github.com/entrace-go/entrace/format"
	"github.com/entrace-go/entrace/internal/flight"
	"github.com/entrace-go/entrace/internal/guard"
	"github.com/entrace-go/entrace/internal/mapping"
	"github.com/entrace-go/entrace/internal/record"
	"github.com/entrace-go/entrace/internal/ring"
	"github.com/entrace-go/entrace/internal/text"
)

// logged fires for a log record in the ring.
func (c *Control) logged(s *ring.LogEvent) {
	if text, is := ring.ServedPanic(s.Message); is {
		c.firePanic(text, "panic: "+text, s.Span)
	}
	if f := c.rules.Load(); f == nil || s.Level < f.noticed {
		return
	}
	c.Fire(Request{
		Trigger: TriggerLog, Key: s.Message, Reason: s.Level.String() + ": " + s.Message, Span: s.Span, Level: mapping.SlogLevel(uint8(s.Level)),
	})
}

// Flight returns what the span processor of this module calls.
func (c *Control) Flight() flight.Recorder { return spanTriggers{c} }

// A spanTriggers is the part of a control, which may be nil, that a span processor calls.
type spanTriggers struct{ *Control }

// SpanEnded costs an atomic load unless the span is slow. A span for which there is a trace since it
// did not end fires no more.
func (c spanTriggers) SpanEnded(name string, span format.SpanRef, took time.Duration) {
	if c.Control == nil {
		return
	}
	f := c.rules.Load()
	if f == nil || took <= f.slow {
		return
	}
	if c.watchdog.hasTrace(span) { // one trace is enough for it
		c.verdicts.count(TriggerSpan, VerdictCoalesced)
		return
	}
	c.Fire(Request{
		Trigger: TriggerSpan, Key: name, Span: span, Took: took, Reason: fmt.Sprintf("span %s took %v", name, took),
	})
}

// SpanPanicked ignores [http.ErrAbortHandler].
func (c spanTriggers) SpanPanicked(name string, span format.SpanRef, text string) {
	if c.Control == nil || text == http.ErrAbortHandler.Error() {
		return
	}
	c.firePanic(text, "panic in "+name+": "+text, span)
}

// samePanic is the time in which panics with the same text are one: each span that ends by it,
// CapturePanic and the server's log record report it.
const samePanic = 2 * time.Second

// A lastPanic is the panic that was reported last.
type lastPanic struct {
	mu   sync.Mutex
	text string
	at   time.Time
}

// first reports whether a panic differs from the last one or came later, and whether there was none at
// all a moment ago.
func (l *lastPanic) first(text string, now time.Time) (first, only bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	only = l.at.IsZero() || now.Sub(l.at) >= samePanic
	if l.text == text && !only {
		return false, false
	}
	l.text, l.at = text, now
	return true, only
}

func (c *Control) firePanic(text, reason string, span format.SpanRef) {
	if f := c.rules.Load(); f == nil || len(f.by[TriggerPanic]) == 0 {
		return
	}
	text = cut(text)
	first, only := c.panics.first(text, time.Now())
	if !first {
		c.verdicts.count(TriggerPanic, VerdictCoalesced)
		return
	}
	r := Request{Trigger: TriggerPanic, Key: text, Reason: cut(reason), Span: span}
	if only { // a storm of panics does not look through all open spans each time
		_, r.request = c.watchdog.openTree().request(span.TraceID) // now, since the panic ends that span as well
	}
	c.Fire(r)
}

// WantsLabels reports true of all spans while the processor is profiled, else of those that begin a local
// trace, if a trace of the configuration has goroutines.
func (c spanTriggers) WantsLabels(first bool) bool {
	if c.Control == nil {
		return false
	}
	if first {
		if f := c.rules.Load(); f != nil && f.dumps {
			return true
		}
	}
	return c.Enabled(CPUProfile)
}

// openSpans passes the spans to fn that are open and began before a time, until fn returns
// false.
type openSpans = func(before time.Time, fn func(name string, span, parent format.SpanRef, start time.Time) bool)

// WatchSpans has the watchdog look at the spans until stop is called.
func (c spanTriggers) WatchSpans(spans openSpans) (stop func()) {
	if c.Control == nil {
		return func() {}
	}
	w := &c.watchdog
	w.spansMu.Lock()
	defer w.spansMu.Unlock()
	own := &spans
	w.spans = append(w.spans, own)
	return func() {
		w.spansMu.Lock()
		defer w.spansMu.Unlock()
		w.spans = slices.DeleteFunc(slices.Clone(w.spans), func(s *openSpans) bool { return s == own })
	}
}

// each passes the spans to fn that are open and began before a time, until fn returns false.
func (w *watchdog) each(before time.Time, fn func(name string, span, parent format.SpanRef, start time.Time) bool) {
	w.spansMu.Lock()
	all := w.spans
	w.spansMu.Unlock()
	for _, spans := range all {
		(*spans)(before, fn)
	}
}

// A watchdog looks for spans that do not end.
type watchdog struct {
	mu sync.Mutex

	stop chan struct{}
	done chan struct{}
	seen map[format.SpanRef]time.Duration // how long spans were open at the last look; the goroutine's while it runs

	spansMu sync.Mutex

	spans []*openSpans

	tracedMu sync.Mutex

	traced map[format.SpanRef]int // spans for which there is a trace, and how many looks have not found them since
}

// minWatch is how often the watchdog looks at most.
const minWatch = 20 * time.Millisecond

// follow has the watchdog go by f; nil ends it.
func (w *watchdog) follow(c *Control, f *rules) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.stop != nil {
		close(w.stop)
		<-w.done
		w.stop = nil
	}
	if f == nil || f.stuck == never {
		return
	}
	stop, done := make(chan struct{}), make(chan struct{})
	w.stop, w.done = stop, done
	go func() {
		defer close(done)
		tick := time.NewTicker(max(f.stuck/4, minWatch))
		defer tick.Stop()
		for {
			select {
			case <-stop:
				return
			case <-tick.C:
				w.seen = c.sweep(f, w.seen)
			}
		}
	}()
}

// traces notes that a span that does not end has got its trace.
func (w *watchdog) traces(span format.SpanRef) {
	w.tracedMu.Lock()
	defer w.tracedMu.Unlock()
	if w.traced == nil {
		w.traced = make(map[format.SpanRef]int)
	}
	w.traced[span] = 0
}

// forget notes that the trace was not made.
func (w *watchdog) forget(span format.SpanRef) {
	w.tracedMu.Lock()
	defer w.tracedMu.Unlock()
	delete(w.traced, span)
}

// hasTrace reports whether a span that did not end has got its trace.
func (w *watchdog) hasTrace(span format.SpanRef) bool {
	w.tracedMu.Lock()
	defer w.tracedMu.Unlock()
	_, is := w.traced[span]
	return is
}

// prune forgets the spans that are not open any more, after a while: their ends may
// not have been told yet.
func (w *watchdog) prune(open map[format.SpanRef]time.Duration) {
	const misses = 3
	w.tracedMu.Lock()
	defer w.tracedMu.Unlock()
	for span, n := range w.traced {
		if _, is := open[span]; is {
			w.traced[span] = 0
		} else if w.traced[span] = n + 1; n >= misses {
			delete(w.traced, span)
		}
	}
}

// maxFires is how many requests a sweep makes at most; those for the same trace are
// one.
const maxFires = 1000

// sweep fires once per rule for each span that has been open for too long, and returns how long each
// of them has been open. Seen is the result of the sweep before.
func (c *Control) sweep(f *rules, seen map[format.SpanRef]time.Duration) map[format.SpanRef]time.Duration {
	w := &c.watchdog
	now := time.Now()
	stuck := make(map[format.SpanRef]time.Duration)
	var fire []Request
	w.each(now.Add(-f.stuck), func(name string, span, _ format.SpanRef, start time.Time) bool {
		took, before := now.Sub(start), seen[span]
		for _, rule := range f.by[TriggerWatchdog] {
			if took <= rule.LongerThan || rule.Key != "" && !wildcard(rule.Key, name) {
				continue
			}
			stuck[span] = took
			if before <= rule.LongerThan && len(fire) < maxFires { // when it passes its bound
				fire = append(fire, Request{
					Trigger: TriggerWatchdog, Key: name, Span: span, Took: took,
					Name:   f.cfg.Traces[rule.trace].Name,
					Reason: fmt.Sprintf("span %s is open for %v", name, took.Round(time.Millisecond)),
				})
			}
		}
		return true
	})
	w.prune(stuck)
	// Those of one trace are one request, which names the span that contains the others.
	slices.SortStableFunc(fire, func(a, b Request) int { return cmp.Compare(b.Took, a.Took) })
	for _, r := range fire {
		c.Fire(r)
	}
	return stuck
}

// signals are those that ask for traces.
type signals struct {
	mu sync.Mutex

	names []string
	ch    chan os.Signal
	done  chan struct{}
}

// follow has fire called with the names of these signals. Without names it ends.
func (s *signals) follow(names []string, fire func(name string)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if slices.Equal(names, s.names) {
		return
	}
	old, oldDone := s.ch, s.done
	defer func() {
		if old != nil { // after the new ones are there: one that is in both must not kill
			signal.Stop(old)
			close(old)
			<-oldDone
		}
	}()
	s.ch = nil
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
			fire(by[sig.String()])
		}
	}()
}

func (c *Control) onSignal(name string) {
	c.Fire(Request{Trigger: TriggerSignal, Key: name, Reason: "signal " + name, Manual: true})
}

// panicTime is how long a panic waits for its trace.
const panicTime = 2 * time.Second

// CapturePanic is to be deferred where a goroutine begins. It records a panic with
// its stack, asks for a trace, and panics on when the trace is there, or after 2 s.
// It only passes [http.ErrAbortHandler] on.
func (c *Control) CapturePanic() {
	if c == nil {
		return // the panic goes on by itself
	}
	p := recover()
	if p == nil {
		return
	}
	if p != any(http.ErrAbortHandler) { // no method of the value is called here
		c.panicked(p, debug.Stack())
	}
	panic(p)
}

// panicked must not panic itself.
func (c *Control) panicked(p any, stack []byte) {
	defer func() { _ = recover() }()
	why := guard.Text(p)
	now := time.Now()
	e := &format.TraceEntry{
		Message:  format.Some("panic: " + cut(why)),
		Metadata: format.Metadata{Name: "event panic", Target: target, Level: format.LevelError},
		Attributes: []format.Attribute{
			{Name: format.AttrTime, Value: format.TimeValue(now)},
			{Name: "exception.message", Value: format.StringValue(cut(why))},
			{Name: "exception.stacktrace", Value: format.StringValue(text.Cut(string(stack), maxStack))},
		},
	}
	b := c.ring.Recorder().Batch()
	b.Log(format.SpanRef{}, now.UnixNano())
	b.SetProvider(record.ProviderLogs) // it is no request of its own
	b.Entry(e)
	_ = b.Write() // kept and counted
	ctx, cancel := context.WithTimeout(context.Background(), panicTime)
	defer cancel()
	// The spans that end by it ask for no other one.
	c.panics.first(cut(why), now)
	_, _ = c.Start(ctx, Request{Trigger: TriggerPanic, Key: why, Reason: "panic: " + why}) // the verdict is counted
}

const maxStack = 32 << 10
