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

	"github.com/entrace-go/entrace/control/internal/traces"
	"github.com/entrace-go/entrace/format"
	"github.com/entrace-go/entrace/internal/core/mapping"
	"github.com/entrace-go/entrace/internal/core/record"
	"github.com/entrace-go/entrace/internal/text"
	"github.com/entrace-go/entrace/internal/write/flightrecorder"
	"github.com/entrace-go/entrace/internal/write/ring"
	"github.com/entrace-go/entrace/internal/write/safecall"
)

// logged requests a trace for a log record of the ring if a trigger may match it.
func (c *Control) logged(s *ring.LogEvent) {
	f := c.rules.Load()
	if text, is := ring.ServedPanic(s.Message); is && f != nil && len(f.by[TriggerPanic]) > 0 {
		c.firePanic(text, "panic: "+text, s.Span)
		return
	}
	if f == nil || s.Level < f.noticed {
		return
	}
	c.Fire(Request{
		Trigger: TriggerLog, Key: s.Message, Reason: s.Level.String() + ": " + s.Message, Span: s.Span, Level: mapping.SlogLevel(uint8(s.Level)),
	})
}

// spanEnded requests a trace if a span was slow, unless the watchdog has already requested a trace for this span. It
// also requests a trace if a panic other than [http.ErrAbortHandler] ended the span. For other spans it costs one
// atomic load.
func (c *Control) spanEnded(e *record.Event) {
	name, span := e.Message, format.SpanRef{TraceID: [16]byte(e.Ref.TraceID()), SpanID: [8]byte(e.Ref.SpanID())}
	f := c.rules.Load()
	if f != nil && e.Took > f.slow {
		if c.watchdog.hasTrace(span) { // the trace of the watchdog is enough
			c.verdicts.count(TriggerSpan, VerdictCoalesced)
		} else {
			c.Fire(Request{
				Trigger: TriggerSpan, Key: name, Span: span, Took: e.Took, Reason: fmt.Sprintf("span %s took %v", name, e.Took),
			})
		}
	}
	if e.Panicked && e.Panic != http.ErrAbortHandler.Error() {
		c.firePanic(e.Panic, "panic in "+name+": "+e.Panic, span)
	}
}

func init() {
	flightrecorder.Of = func(c any) flightrecorder.Recorder { return spanTriggers{c.(*Control)} }
}

// A spanTriggers implements flightrecorder.Recorder for a control, which may be nil.
type spanTriggers struct{ *Control }

// samePanic is the period in which panics with the same text count as one panic. One panic is reported several
// times: by each span that it ends, by CapturePanic, and by the server's log record.
const samePanic = 2 * time.Second

// A lastPanic holds the panic that was reported most recently.
type lastPanic struct {
	mu   sync.Mutex
	text string
	at   time.Time
}

// first reports whether a panic is new. A panic is not new if the last panic has the same text and was reported less
// than samePanic ago. The result only says that no other panic was reported within samePanic.
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
	if only { // if there are many panics, do not search the open spans for each one
		_, r.request = c.watchdog.openTree().request(span.TraceID) // search now, because the panic is about to end the outer span as well
	}
	c.Fire(r)
}

// WantsLabels returns true for all spans while a CPU profile runs. Otherwise it returns true for spans
// without a parent in this process, if a trace of the configuration has the provider goroutines.
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

// WantsMarks reports whether spans should write their ids to an execution trace.
func (c spanTriggers) WantsMarks() bool {
	if c.Control == nil {
		return true
	}
	f := c.rules.Load()
	return f == nil || f.marks
}

// An openSpans is a function that calls fn with each open span that began before the given time, until fn
// returns false.
type openSpans = func(before time.Time, fn func(name string, span, parent format.SpanRef, start time.Time) bool)

// WatchSpans registers a function through which the watchdog finds the open spans. stop removes the function.
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

// each calls fn with each open span that began before the given time, until fn returns false.
func (w *watchdog) each(before time.Time, fn func(name string, span, parent format.SpanRef, start time.Time) bool) {
	w.spansMu.Lock()
	all := w.spans
	w.spansMu.Unlock()
	for _, spans := range all {
		(*spans)(before, fn)
	}
}

// A watchdog checks periodically for spans that have been open for too long.
type watchdog struct {
	mu sync.Mutex

	stop chan struct{}
	done chan struct{}
	seen map[format.SpanRef]time.Duration // how long spans had been open at the last sweep; only the watchdog's goroutine uses it

	spansMu sync.Mutex

	spans []*openSpans

	tracedMu sync.Mutex

	traced map[format.SpanRef]int // for each span with a trace, the number of sweeps since the span was last open
}

// minWatch is the minimum time between two sweeps.
const minWatch = 20 * time.Millisecond

// follow restarts the watchdog with the rules f. If f is nil, the watchdog stops.
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

// traces records that the watchdog has requested a trace for span.
func (w *watchdog) traces(span format.SpanRef) {
	w.tracedMu.Lock()
	defer w.tracedMu.Unlock()
	if w.traced == nil {
		w.traced = make(map[format.SpanRef]int)
	}
	w.traced[span] = 0
}

// forget removes span from the traced spans, because its trace was not made.
func (w *watchdog) forget(span format.SpanRef) {
	w.tracedMu.Lock()
	defer w.tracedMu.Unlock()
	delete(w.traced, span)
}

// hasTrace reports whether the watchdog has requested a trace for span.
func (w *watchdog) hasTrace(span format.SpanRef) bool {
	w.tracedMu.Lock()
	defer w.tracedMu.Unlock()
	_, is := w.traced[span]
	return is
}

// prune removes spans from traced a few sweeps after they have ended. Before that, spanEnded may not have
// been called for them yet.
func (w *watchdog) prune(open map[format.SpanRef]time.Duration) {
	const misses = 3
	w.tracedMu.Lock()
	defer w.tracedMu.Unlock()
	for span, n := range w.traced {
		if _, is := open[span]; is {
			w.traced[span] = 0
		} else {
			w.traced[span] = n + 1
			if n >= misses {
				delete(w.traced, span)
			}
		}
	}
}

// maxFires is the maximum number of requests in a sweep. Fire counts requests for the same trace as one.
const maxFires = 1000

// sweep calls Fire for each span that has been open for too long, once for each rule, and returns how long
// each such span has been open. The parameter seen is the result of the previous sweep.
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
			if before <= rule.LongerThan && len(fire) < maxFires { // the span exceeds the limit for the first time
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
	// Requests for one trace count as one. The longest span comes first, because it contains the other spans.
	slices.SortStableFunc(fire, func(a, b Request) int { return cmp.Compare(b.Took, a.Took) })
	for _, r := range fire {
		c.Fire(r)
	}
	return stuck
}

// signals handles the operating system's signals that request traces.
type signals struct {
	mu sync.Mutex

	names []string
	ch    chan os.Signal
	done  chan struct{}
}

// follow makes s call fire with the name of each received signal in names, and ignore all other signals.
// Without names, no signal is received.
func (s *signals) follow(names []string, fire func(name string)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if slices.Equal(names, s.names) {
		return
	}
	old, oldDone := s.ch, s.done
	defer func() {
		// Stop the old channel after the new Notify, because otherwise a signal in both sets could end the process.
		if old != nil {
			signal.Stop(old)
			close(old)
			<-oldDone
		}
	}()
	s.ch = nil
	s.names = slices.Clone(names)
	by := make(map[string]string) // from the String of a signal to its name in the configuration
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
		collect(ch, func(sig os.Signal) { fire(by[sig.String()]) })
	}()
}

// sameInstant is the period in which equal signals count as one.
const sameInstant = 100 * time.Millisecond

// collect calls fire for the signals in ch until ch is closed. Signals that come less than sameInstant after a call
// wait, and equal waiting signals become one call.
func collect(ch <-chan os.Signal, fire func(os.Signal)) {
	var rest <-chan time.Time // nil: signals do not wait
	waiting := make(map[os.Signal]bool)
	for open := true; open; {
		var sig os.Signal
		select {
		case sig, open = <-ch:
			if open {
				waiting[sig] = true
			}
		case <-rest:
			rest = nil
		}
		if rest != nil && open || len(waiting) == 0 {
			continue
		}
		for sig := range waiting {
			fire(sig)
		}
		clear(waiting)
		rest = time.After(sameInstant)
	}
}

func (c *Control) onSignal(name string) {
	c.Fire(Request{Trigger: TriggerSignal, Key: name, Reason: "signal " + name, Manual: true})
}

// panicTime is the maximum time that a panic waits for its trace.
const panicTime = 2 * time.Second

// CapturePanic must be deferred at the start of a goroutine. It records a panic with its stack and
// requests a trace. When the trace is written, or after 2 s, it panics again with the same value.
// For [http.ErrAbortHandler] it only panics again.
func (c *Control) CapturePanic() {
	if c == nil {
		return // p is not recovered, so the panic continues
	}
	p := recover()
	if p == nil {
		return
	}
	if p != any(http.ErrAbortHandler) { // this comparison calls no method of the value
		c.panicked(p, debug.Stack())
	}
	panic(p)
}

// panicked records the panic p and requests a trace. It must not panic itself.
func (c *Control) panicked(p any, stack []byte) {
	defer func() { _ = recover() }()
	why := safecall.Text(p)
	now := time.Now()
	e := &format.TraceEntry{
		Message:  format.Some("panic: " + cut(why)),
		Metadata: format.Metadata{Name: "event panic", Target: target, Level: format.LevelError},
		Attributes: []format.Attribute{
			{Name: "exception.message", Value: format.StringValue(cut(why))},
			{Name: "exception.stacktrace", Value: format.StringValue(text.Cut(string(stack), maxStack))},
		},
	}
	// This entry causes no request. The recorder counts the entry if it fails.
	_ = traces.WriteTimed(c.ring.Recorder(), record.ProviderLogs, format.SpanRef{}, now, e)
	ctx, cancel := context.WithTimeout(context.Background(), panicTime)
	defer cancel()
	// Spans that this panic ends must not request another trace.
	c.panics.first(cut(why), now)
	_, _ = c.Start(ctx, Request{Trigger: TriggerPanic, Key: why, Reason: "panic: " + why}) // the verdict is counted
}

const maxStack = 32 << 10
