package control

import (
	"sync"
	"time"

	"github.com/entrace-go/entrace/format"
)

// An openSpans is a function that calls fn with each open span that began before the given time, until fn
// returns false.
type openSpans = func(before time.Time, fn func(name string, span, parent format.SpanRef, start time.Time) bool)

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

// each calls fn with each open span that began before the given time, until fn returns false.
func (w *watchdog) each(before time.Time, fn func(name string, span, parent format.SpanRef, start time.Time) bool) {
	w.spansMu.Lock()
	all := w.spans
	w.spansMu.Unlock()
	for _, spans := range all {
		(*spans)(before, fn)
	}
}

// minWatch is the minimum time between two sweeps.
const minWatch = 20 * time.Millisecond

// follow restarts the watchdog with the rules f. If f is nil, the watchdog stops.
func (w *watchdog) follow(f *rules, sweep func(*rules)) {
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
				sweep(f)
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

// An openTree holds the spans that are open at one moment, by their ids.
type openTree map[format.SpanRef]*openSpan

// An openSpan is a span of an openTree.
type openSpan struct {
	name     string
	parent   format.SpanRef // zero: the span has no parent in this process
	children int            // number of open children
	child    format.SpanRef // the last open child that was found
}

// openTree returns the spans that are open.
func (w *watchdog) openTree() openTree {
	t := make(openTree)
	w.each(time.Now(), func(name string, span, parent format.SpanRef, _ time.Time) bool {
		t[span] = &openSpan{name: name, parent: parent}
		return true
	})
	for ref, s := range t {
		if up := t[s.parent]; up != nil {
			up.children++
			up.child = ref
		}
	}
	return t
}

// innermost follows the open spans from ref downward, as long as each has exactly one open child. It
// returns the last span of this chain.
func (t openTree) innermost(ref format.SpanRef) format.SpanRef {
	for range t {
		s := t[ref]
		if s == nil || s.children != 1 {
			break
		}
		ref = s.child
	}
	return ref
}

// request returns the span that began the part of a trace in this process, and its name. It returns the zero SpanRef
// if no such span, or more than one, is open.
func (t openTree) request(trace [16]byte) (root format.SpanRef, name string) {
	for ref, s := range t {
		if ref.TraceID != trace || s.parent.IsValid() {
			continue
		}
		if root.IsValid() {
			return format.SpanRef{}, ""
		}
		root, name = ref, s.name
	}
	return root, name
}
